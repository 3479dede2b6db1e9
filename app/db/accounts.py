"""Whose account at the provider a sandbox is in, and its key: a stored one, of a person or an installation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.cipher import Cipher, Unreadable
from app.db.credentials import find_stored, open_credential, place_of
from app.db.engine import Database
from app.db.models import Sandbox, Spec, StoredCredential
from app.domain.credentials import CredentialKind, account_name, account_place
from app.domain.remote import Account, AccountKey

REMOVED = "it was removed"


async def find_account_name(session: AsyncSession, spec: Spec) -> str | None:
    """For a new sandbox: of who labeled, else of the installation; None: the operator's account."""
    row = await find_stored(session, CredentialKind.DAYTONA, spec.labeler_id, spec.installation_id)
    return None if row is None else account_name(row.scope, row.owner_id)


class StoredAccounts:
    """Implements `remote.Accounts`. Read anew each time: a key that is replaced or removed counts at once. `hide` is told
    every secret that is opened, to keep it out of logs.
    """

    def __init__(self, database: Database, cipher: Cipher, hide: Callable[[str], None]) -> None:
        self._database = database
        self._cipher = cipher
        self._hide = hide

    async def find_account(self, name: str) -> Account | None:
        async with self._database.read() as session:
            owner = await session.scalar(select(Sandbox.account_of).where(Sandbox.provider_name == name))
            if owner is None:
                return None
            place = account_place(owner)
            row = await session.get(StoredCredential, (place.scope.value, place.owner_id, place.kind.value))
        return self._account(owner, row, (name,))

    async def list_accounts(self) -> Sequence[Account]:
        async with self._database.read() as session:
            stored = await session.scalars(
                select(StoredCredential).where(StoredCredential.kind == CredentialKind.DAYTONA.value)
            )
            rows = {account_name(row.scope, row.owner_id): row for row in stored}
            inside = await session.execute(
                select(Sandbox.account_of, Sandbox.provider_name).where(
                    Sandbox.account_of.is_not(None), Sandbox.removed_at.is_(None)
                )
            )
            names: dict[str, list[str]] = defaultdict(list)
            for owner, name in inside:
                names[str(owner)].append(name)
        return [
            self._account(owner, rows.get(owner), tuple(names.get(owner, ())))
            for owner in sorted({*rows, *names})
        ]

    def _account(self, owner: str, row: StoredCredential | None, names: tuple[str, ...]) -> Account:
        if row is None:
            return Account(owner, None, REMOVED, names)
        try:
            found = open_credential(row, self._cipher)
        except Unreadable as reason:
            return Account(owner, None, f"{place_of(row).words}: {reason}", names)
        self._hide(found.secret)
        return Account(owner, AccountKey(owner, found.secret, found.base_url), "", names)
