"""Things that may take longer than a step: started under a deterministic name, looked at by later steps.

The work itself runs as an asyncio task of this worker and renews its row; when the worker dies, the row lapses and
the next step that looks starts it again (every operation cleans up what a killed one left).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.db.locks import claim_operation, find_operation, forget_operation, renew_operation, settle_operation
from app.domain.errors import OutsideError
from worker.parts import Parts

log = structlog.get_logger("worker.operations")

HOLD = timedelta(seconds=30)
_RENEW_S = 10.0
_running: dict[str, asyncio.Task[None]] = {}
"""A cache only: it lets a step wait briefly for what its own process runs. The row is the truth."""

_errors: dict[str, Exception] = {}
"""What went wrong and was not raised yet. Of another process's only the words in the row are known, so that a failure that
none of its steps sees is not told: the work begins again.
"""


async def run_operation(
    parts: Parts, name: str, work: Callable[[], Awaitable[None]], *, patience_s: float
) -> bool:
    """Start `work` unless it is done or runs already, and wait for it up to `patience_s`. True when it is done.

    Raises the operation's own error once when it failed, also between two calls; the next call starts it afresh.
    """
    async with parts.db.write() as session:
        row = await find_operation(session, name)
        if row is not None and row.state == "done":
            return True
        unheard = None
        if row is not None and row.state == "failed":
            await forget_operation(session, name)
            unheard = _errors.pop(name, None)
        mine = unheard is None and await claim_operation(session, name, parts.worker_id, parts.clock(), HOLD)
    if unheard is not None:
        raise unheard
    if mine:
        _running[name] = asyncio.create_task(_run(parts, name, work))
    task = _running.get(name)
    if task is not None:
        await asyncio.wait({task}, timeout=patience_s)
    async with parts.db.read() as session:
        row = await find_operation(session, name)
    if row is not None and row.state == "failed":
        raise _errors.pop(name, None) or OutsideError(row.detail or "the operation failed")
    return row is not None and row.state == "done"


async def forget_done(parts: Parts, name: str) -> None:
    async with parts.db.write() as session:
        await forget_operation(session, name)


async def _run(parts: Parts, name: str, work: Callable[[], Awaitable[None]]) -> None:
    renewal = asyncio.create_task(_renew(parts, name))
    state, detail = "done", None
    _errors.pop(name, None)
    try:
        await work()
    except asyncio.CancelledError:
        state, detail = "failed", "interrupted"
        raise
    except Exception as error:  # noqa: BLE001 - kept for the step that asks for it, which judges it
        state, detail = "failed", f"{type(error).__name__}: {error}"[:2000]
        _errors[name] = error
    finally:
        renewal.cancel()
        with suppress(asyncio.CancelledError):
            await renewal
        async with parts.db.write() as session:
            await settle_operation(session, name, parts.worker_id, state, detail)
        _running.pop(name, None)


async def _renew(parts: Parts, name: str) -> None:
    while True:
        await asyncio.sleep(_RENEW_S)
        try:
            async with parts.db.write() as session:
                if not await renew_operation(session, name, parts.worker_id, parts.clock() + HOLD):
                    return
        except (SQLAlchemyError, OSError) as error:
            log.warning("operation.not_renewed", error=type(error).__name__)
