"""Sandboxes on Daytona in several accounts: the operator's, and those of people and installations with a key of their own.

Which account a sandbox is in says its row. Whoever's key does not work keeps nobody else's sandboxes from being looked
after: what can't be listed counts as still there, and its own heartbeat decides.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from app.domain.errors import Denied, OutsideError
from app.domain.ports import Probe, SandboxOrder, SandboxSight, SandboxStatus
from app.domain.remote import Account, AccountKey, Accounts, Left
from app.sandbox.daytona import DaytonaSandboxes
from app.sandbox.daytona_account import DaytonaAccount

_log = logging.getLogger(__name__)

KNOWN_S = 15.0
"""How long it is remembered whose account a sandbox is in, and with which key: files are asked for several times a second."""
UNUSABLE = (
    "the Daytona key of {owner} can't be used ({trouble}). Store it again with `issuewright credentials set daytona "
    "--{option}`, or remove it so that the next sandbox is made in another account; a sandbox that is still in this one "
    "has to be deleted there"
)


@dataclass(frozen=True)
class _Known:
    account: Account | None
    at_s: float


class DaytonaAccounts:
    """Implements `ports.Sandboxes`, `remote.RelayFiles` and `remote.KeepsFiles`. `own` is the operator's account; `make` gives a provider."""

    kind = "daytona"

    def __init__(
        self,
        own: DaytonaAccount,
        accounts: Accounts,
        make: Callable[[DaytonaAccount], DaytonaSandboxes],
    ) -> None:
        self._own = own
        self._accounts = accounts
        self._make = make
        self._operators = make(own)
        self._others: dict[str, tuple[AccountKey, DaytonaSandboxes]] = {}
        self._known: dict[str, _Known] = {}

    async def probe(self) -> Probe:
        """Of the operator's account."""
        return await self._operators.probe()

    async def ensure_created(self, order: SandboxOrder) -> SandboxSight:
        async with self._in_account(order.name) as provider:
            return await provider.ensure_created(order)

    async def fetch_sight(self, name: str) -> SandboxSight:
        async with self._in_account(name) as provider:
            return await provider.fetch_sight(name)

    async def ensure_stopped(self, name: str, grace_s: float) -> None:
        async with self._in_account(name) as provider:
            await provider.ensure_stopped(name, grace_s)

    async def ensure_deleted(self, name: str) -> None:
        async with self._in_account(name, afresh=True) as provider:
            await provider.ensure_deleted(name)
        self._known.pop(name, None)

    async def fetch_log(self, name: str, offset: int = 0, limit: int = 65536) -> bytes:
        async with self._in_account(name) as provider:
            return await provider.fetch_log(name, offset, limit)

    async def fetch_log_start(self, name: str) -> int:
        async with self._in_account(name) as provider:
            return await provider.fetch_log_start(name)

    async def fetch_log_tail(self, name: str, size: int) -> bytes:
        async with self._in_account(name) as provider:
            return await provider.fetch_log_tail(name, size)

    async def fetch_file(self, name: str, file: str, limit: int) -> bytes | None:
        async with self._in_account(name) as provider:
            return await provider.fetch_file(name, file, limit)

    async def save_file(self, name: str, file: str, target: Path, limit: int) -> bool:
        async with self._in_account(name) as provider:
            return await provider.save_file(name, file, target, limit)

    async def put_file(self, name: str, file: str, data: bytes) -> None:
        async with self._in_account(name) as provider:
            await provider.put_file(name, file, data)

    async def save_left(self, name: str, directory: Path) -> Left:
        async with self._in_account(name) as provider:
            return await provider.save_left(name, directory)

    async def list_owned(self) -> Sequence[SandboxSight]:
        """Raises only when the operator's own account can't be listed."""
        sights = list(await self._operators.list_owned())
        for account in await self._accounts.list_accounts():
            try:
                if account.key is None:
                    raise _unusable(account.owner, account.trouble)
                sights += await (await self._provider(account.key)).list_owned()
            except OutsideError as error:
                _log.warning("sandboxes of %s can't be listed: %s", account.owner, error)
                sights += [_unseen(name, account.owner) for name in account.names]
        return sights

    async def aclose(self) -> None:
        await self._operators.aclose()
        for _, provider in self._others.values():
            await provider.aclose()
        self._others.clear()

    # ------------------------------------------------------------ whose

    @asynccontextmanager
    async def _in_account(self, name: str, *, afresh: bool = False) -> AsyncIterator[DaytonaSandboxes]:
        """The provider that a sandbox is in. Of somebody's own account a refused key is theirs to mend: Denied `account`."""
        account = await self._find(name, afresh=afresh)
        if account is None:
            yield self._operators
            return
        if account.key is None:
            raise _unusable(account.owner, account.trouble)
        try:
            yield await self._provider(account.key)
        except Denied as denied:
            if denied.reason != "sandbox_key":
                raise
            self._known.pop(name, None)
            raise _unusable(account.owner, str(denied).replace("DAYTONA_API_KEY", "it")) from denied

    async def _find(self, name: str, *, afresh: bool) -> Account | None:
        now_s = time.monotonic()
        known = self._known.get(name)
        if known is None or afresh or now_s - known.at_s > KNOWN_S:
            self._known = {key: one for key, one in self._known.items() if now_s - one.at_s <= KNOWN_S}
            known = self._known[name] = _Known(await self._accounts.find_account(name), now_s)
        return known.account

    async def _provider(self, key: AccountKey) -> DaytonaSandboxes:
        """One for each account, until its key is replaced."""
        kept = self._others.get(key.owner)
        if kept is not None and kept[0] == key:
            return kept[1]
        account = replace(
            self._own,
            api_key=key.secret,
            api_url=key.api_url or self._own.api_url,
            model_secret="",  # of the operator's organization
        )
        provider = self._make(account)
        self._others[key.owner] = (key, provider)
        if kept is not None:
            await kept[1].aclose()
        return provider


def _unusable(owner: str, trouble: str) -> Denied:
    return Denied(UNUSABLE.format(owner=owner, trouble=trouble, option=owner), reason="account")


def _unseen(name: str, owner: str) -> SandboxSight:
    return SandboxSight(name, SandboxStatus.RUNNING, detail=f"the account of {owner} can't be listed")
