"""`issuewright credentials …`: keys of persons and installations, encrypted in the database. None is ever shown again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from app.cli.options import ConfigOption, JsonOption, load
from app.domain.credentials import (
    MAX_SECRET,
    BadCredential,
    CredentialKind,
    CredentialPlace,
    CredentialScope,
    check_base_url,
    check_secret,
)
from app.domain.errors import IssuewrightError

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from app.db.cipher import Cipher
    from app.db.models import StoredCredential
    from app.settings import Settings

app = typer.Typer(
    help="Keys that runs use instead of the operator's: of a person, else of an installation.",
    no_args_is_help=True,
)

Kind = Annotated[
    CredentialKind, typer.Argument(metavar="KIND", help="What the key is for: model or daytona.")
]
UserOption = Annotated[
    int | None,
    typer.Option(
        "--user", metavar="ID", min=1, max=2**63 - 1, help="Of this person: GitHub's numeric user id."
    ),
]
InstallationOption = Annotated[
    int | None,
    typer.Option(
        "--installation", metavar="ID", min=1, max=2**63 - 1, help="Of this installation of the App."
    ),
]
COLUMNS = ("kind", "owner", "login", "hint", "base_url", "state", "updated_at")
Done = TypeVar("Done")


@app.command("set")
def set_(
    kind: Kind,
    user: UserOption = None,
    installation: InstallationOption = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Address of the API that the key is good for. Unset: as the settings say."
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Store a key, in the place of an earlier one. It is read from standard input and never shown again.

    Runs use a model key from their next model call on, a Daytona key from their next sandbox on.
    """
    from app.db.cipher import Cipher
    from app.db.credentials import SealedSecret, record_credential

    place = _place(kind, user, installation)
    settings = load(config)
    cipher = Cipher(settings.credential_keys)
    try:
        url = None if base_url is None else check_base_url(base_url)
        secret = check_secret(_read_secret())
    except BadCredential as reason:
        raise typer.BadParameter(str(reason)) from None
    sealed = SealedSecret.of(cipher, place, secret, url)

    async def write(session: AsyncSession) -> None:
        await record_credential(session, place, sealed, datetime.now(UTC))

    asyncio.run(_writing(settings, write))
    print(f"{place.words} is stored ({sealed.hint})")


@app.command("list")
def list_(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List whose keys are stored: never the keys, only how the longer ones end."""
    from app.cli.show import show_json, show_rows
    from app.db.cipher import Cipher

    settings = load(config)
    rows = asyncio.run(_list(settings, Cipher(settings.credential_keys)))
    if as_json:
        show_json({"items": rows, "next_cursor": None})
    else:
        show_rows(COLUMNS, rows, nothing="no credentials are stored: every run uses the operator's settings")


@app.command()
def remove(
    kind: Kind, user: UserOption = None, installation: InstallationOption = None, config: ConfigOption = None
) -> None:
    """Forget a key. Runs use the next one (installation, operator) from their next model call or sandbox on.

    A sandbox that is still in the account of a Daytona key that is removed has to be deleted there.
    """
    from app.db.credentials import remove_credential

    place = _place(kind, user, installation)

    async def write(session: AsyncSession) -> bool:
        return await remove_credential(session, place)

    if not asyncio.run(_writing(load(config), write)):
        raise IssuewrightError(f"there is no {place.words}")
    print(f"{place.words} is removed")


@app.command()
def rotate(config: ConfigOption = None) -> None:
    """Encrypt all anew under the first key of CREDENTIALS_KEY, so that the others can be taken out of it."""
    from app.db.cipher import Cipher
    from app.db.credentials import renew_credentials
    from app.domain.errors import SettingsError

    settings = load(config)
    cipher = Cipher(settings.credential_keys)
    if not cipher:
        raise SettingsError("CREDENTIALS_KEY: not set; give the new key first, then the old one: NEW,OLD")

    done = asyncio.run(
        _writing(settings, lambda session: renew_credentials(session, cipher, datetime.now(UTC)))
    )
    for place in done.renewed:
        print(f"{place.words} is now under the first key")
    if not done.renewed:
        print("nothing to do")
    if done.unreadable:
        words = ", ".join(place.words for place in done.unreadable)
        raise IssuewrightError(
            f"no key in CREDENTIALS_KEY opens: {words}; add the key it was stored under, or set it anew"
        )


def _place(kind: CredentialKind, user: int | None, installation: int | None) -> CredentialPlace:
    """Raises BadParameter unless it has exactly one owner."""
    if (user is None) == (installation is None):
        raise typer.BadParameter("give either --user ID or --installation ID")
    if user is not None:
        return CredentialPlace(CredentialScope.USER, user, kind)
    return CredentialPlace(CredentialScope.INSTALLATION, installation or 0, kind)


def _read_secret() -> str:
    """From standard input; typed without an echo on a terminal. Raises BadCredential."""
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass("Key (is not shown): ")
    try:
        return sys.stdin.read(2 * MAX_SECRET)
    except UnicodeDecodeError:
        raise BadCredential("a key is plain ASCII text") from None


async def _list(settings: Settings, cipher: Cipher) -> list[dict[str, Any]]:
    from app.db.credentials import list_credentials, list_logins
    from app.db.engine import Database
    from app.db.schema import require_current_schema

    await require_current_schema(settings.database)
    async with aclosing(Database(settings.database)) as database, database.read() as session:
        rows = await list_credentials(session)
        people = [row.owner_id for row in rows if row.scope == CredentialScope.USER]
        logins = await list_logins(session, people)
    return [
        {
            "kind": row.kind,
            "scope": row.scope,
            "owner_id": row.owner_id,
            "owner": f"{row.scope} {row.owner_id}",
            "login": logins.get(row.owner_id) if row.scope == CredentialScope.USER else None,
            "hint": row.hint,
            "base_url": row.base_url,
            "state": _state(row, cipher),
            "created_at": row.created_at.isoformat(),
            "updated_at": row.updated_at.isoformat(),
        }
        for row in rows
    ]


def _state(row: StoredCredential, cipher: Cipher) -> str:
    from app.db.cipher import Unreadable
    from app.db.credentials import open_credential

    try:
        open_credential(row, cipher)
    except Unreadable as reason:
        return f"unreadable: {reason}"
    return "ok" if cipher.is_under_first_key(row.sealed) else "ok, under an older key"


async def _writing(settings: Settings, write: Callable[[AsyncSession], Awaitable[Done]]) -> Done:
    from app.db.engine import Database
    from app.db.schema import require_current_schema

    await require_current_schema(settings.database)
    async with aclosing(Database(settings.database)) as database, database.write() as session:
        return await write(session)
