"""`issuewright sandboxes logs`: from the machine while there is one, else the end that was kept."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from app.cli.show import show_json
from app.cli.terminal import ReadableLog

if TYPE_CHECKING:
    from app.cli.operator import Operator
    from app.db.models import Artifact
    from app.domain.ports import Sandboxes
    from app.settings import Settings


async def show_log(settings: Settings, sandbox_id: str, *, follow: bool, as_json: bool) -> None:
    """Raises NotShown when there is no such sandbox, OutsideError when its provider can't be asked."""
    from contextlib import aclosing

    from app.cli.operator import operator
    from app.db.accounts import StoredAccounts
    from app.db.cipher import Cipher
    from app.db.engine import Database
    from app.observability.redaction import register_secret
    from app.sandbox.select import make_sandboxes
    from app.web.sockets import gateway_dir

    async with operator(settings) as api, aclosing(Database(settings.database)) as database:
        view = await api.get(f"/sandboxes/{sandbox_id}")
        if view["removed_at"] is not None:
            await _show_kept(settings, view, as_json=as_json)
            return
        home = settings.issuewright_home
        accounts = StoredAccounts(database, Cipher(settings.credential_keys), register_secret)
        sandboxes = make_sandboxes(settings.provider, home, gateway_dir(home), settings, accounts=accounts)
        try:
            if as_json:
                text = ReadableLog().feed(await _fetch_all(sandboxes, view["provider_name"]))
                show_json({"sandbox_id": sandbox_id, "kept": False, "text": text})
            else:
                await _follow(api, sandboxes, view, follow=follow)
        finally:
            await sandboxes.aclose()


async def _follow(api: Operator, sandboxes: Sandboxes, view: dict[str, Any], *, follow: bool) -> None:
    log, offset, name = ReadableLog(), 0, view["provider_name"]
    while True:
        ended = (await api.get(f"/sandboxes/{view['id']}"))["ended_at"] is not None
        start, piece = await _fetch_piece(sandboxes, name, offset)
        if start > offset:
            print(f"{start - offset} bytes before this were dropped: there was too much", file=sys.stderr)
        offset = start + len(piece)
        print(log.feed(piece), end="", flush=True)
        if not piece and (ended or not follow):
            return
        if not piece:
            await asyncio.sleep(0.5)


async def _fetch_all(sandboxes: Sandboxes, name: str) -> bytes:
    found, offset = b"", 0
    while True:
        start, piece = await _fetch_piece(sandboxes, name, offset)
        if not piece:
            return found
        found, offset = found + piece, start + len(piece)


async def _fetch_piece(sandboxes: Sandboxes, name: str, offset: int) -> tuple[int, bytes]:
    """What follows `offset` and where it begins: a payload that says much loses the oldest of it.

    Should more be dropped between the two questions, some of it comes twice.
    """
    start = max(offset, await sandboxes.fetch_log_start(name))
    return start, await sandboxes.fetch_log(name, start)


async def _show_kept(settings: Settings, view: dict[str, Any], *, as_json: bool) -> None:
    """What a step kept of a sandbox that was lost."""
    data = await _read_kept(settings, view["id"])
    text = ReadableLog().feed(data or b"")
    if as_json:
        show_json({"sandbox_id": view["id"], "kept": data is not None, "text": text})
        return
    print(text, end="", flush=True)
    if data is None:
        said = "its machine is gone, and of its log nothing was kept: it ended by itself"
    else:
        said = f"its machine is gone; this is the end of its log ({len(data)} bytes), kept when it was lost"
    print(said, file=sys.stderr)


async def _read_kept(settings: Settings, sandbox_id: str) -> bytes | None:
    from contextlib import aclosing

    from app.db.engine import Database
    from app.db.sandboxes import find_artifact, get_artifact_bytes
    from app.domain.supervision import LOG_TAIL

    async with aclosing(Database(settings.database)) as database, database.read() as session:
        kept: Artifact | None = await find_artifact(session, sandbox_id, LOG_TAIL)
        return await get_artifact_bytes(session, kept.id) if kept is not None else None
