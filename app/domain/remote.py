"""What only some providers of sandboxes have, as protocols over plain data: accounts that sandboxes are in, a way to
those that can't reach the app, the files of those that have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from app.domain.errors import RetryAt
from sandbox_payload.wire.left import MANIFEST_FILE, TRANSCRIPT_FILE, WORK_FILE


class AppSilent(RetryAt):
    """A sandbox can't reach the app, but neither can whoever makes it: that says nothing about the sandbox's network."""


@dataclass(frozen=True)
class DirectModel:
    """The model's API for an agent that can't reach the gateway. `scope`: whose key it is to be (a CredentialScope's
    value); `key` None: the operator does not let it into a sandbox.
    """

    scope: str
    base_url: str
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class AccountKey:
    """A stored key of somebody's account at the provider. `owner`: as sandboxes' rows name it. `api_url` None: as set."""

    owner: str
    secret: str = field(repr=False)
    api_url: str | None = None


@dataclass(frozen=True)
class Account:
    """One account beside the operator's. `key` None: `trouble` says why it can't be used. `names`: sandboxes in it that
    have not been seen to be gone.
    """

    owner: str
    key: AccountKey | None
    trouble: str = ""
    names: tuple[str, ...] = ()


class Accounts(Protocol):
    """Whose accounts sandboxes are in."""

    async def find_account(self, name: str) -> Account | None:
        """The account of the sandbox of that name; None: the operator's."""

    async def list_accounts(self) -> Sequence[Account]:
        """Of every stored key, and of every sandbox there may still be."""


@runtime_checkable
class RelayFiles(Protocol):
    """A provider that reaches into its sandboxes, for those that can't reach us. `file` is below the payload's state
    directory. Raises what `Sandboxes` names, and TooMuch.
    """

    async def fetch_file(self, name: str, file: str, limit: int) -> bytes | None:
        """None when there is no such file (or sandbox). TooMuch beyond `limit` bytes, without reading on."""

    async def save_file(self, name: str, file: str, target: Path, limit: int) -> bool:
        """The same into a file on this host; False when there is none."""

    async def put_file(self, name: str, file: str, data: bytes) -> None: ...


@dataclass(frozen=True)
class Left:
    """Files on this host with what a sandbox that has ended had ready to hand over; None where there is none. Whether it
    arrived before is not known here. `checkpoint` is the newest state of the work, `result` that of the round which
    `manifest` is about, if it is about that.
    """

    checkpoint: Path | None = None
    transcript: Path | None = None
    result: Path | None = None
    manifest: Path | None = None
    spool: tuple[Path, ...] = ()
    """Its newest events, as `wire.left` names the files, the oldest first."""
    relayed: bool = False
    """It was made to ask the model past the gateway: what it has spent is what its events say."""

    @classmethod
    def of(
        cls, saved: Mapping[str, Path], newest: str | None, spool: Iterable[Path], *, relayed: bool
    ) -> Left:
        """From what was saved of `wire.left.LEFT_FILES`, by name. `newest`: which of them is the newest work."""
        return cls(
            checkpoint=saved.get(newest or ""),
            transcript=saved.get(TRANSCRIPT_FILE),
            result=saved.get(WORK_FILE),
            manifest=saved.get(MANIFEST_FILE),
            spool=tuple(spool),
            relayed=relayed,
        )


@runtime_checkable
class KeepsFiles(Protocol):
    """A provider that keeps the files of sandboxes which have ended."""

    async def save_left(self, name: str, directory: Path) -> Left:
        """Copies them into `directory`, which is made. Of a sandbox that stands still, once that has been started for
        it: nothing that ran in it runs again. As long as large files take; not for steps. May be repeated.

        Raises RetryAt while it can't be started or Daytona is away, Denied, and Unexpected for one that can't be read.
        """
