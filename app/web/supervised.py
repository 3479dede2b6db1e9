"""What went wrong with a sandbox and what was done about it, told from what is stored: nothing is kept for this alone."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Artifact, Sandbox
from app.db.sandboxes import find_artifact, find_next_attempt
from app.domain.supervision import LOG_TAIL, SEEN, Trouble
from sandbox_payload.wire import ArtifactName


class SupervisionView(BaseModel):
    """Of a sandbox that was in trouble, or whose log was kept when it was lost."""

    trouble: str | None
    """By its name in docs/supervision.md; null where nothing but its end was noticed."""
    seen: str | None
    """The same for people."""
    done: list[str]
    """In order, with the times."""
    log_bytes: int | None
    """How much of the end of its own output is kept; null where none is."""


async def read_supervision(session: AsyncSession, sandbox: Sandbox) -> SupervisionView | None:
    """None where nothing of the kind happened."""
    log = await find_artifact(session, sandbox.id, LOG_TAIL)
    if sandbox.trouble is None and log is None:
        return None
    work = await find_artifact(session, sandbox.id, ArtifactName.CHECKPOINT)
    following = await find_next_attempt(session, sandbox)
    return SupervisionView(
        trouble=sandbox.trouble,
        seen=SEEN.get(Trouble(sandbox.trouble)) if sandbox.trouble in set(Trouble) else None,
        done=_what_was_done(sandbox, log, work, following),
        log_bytes=log.size if log is not None else None,
    )


def _what_was_done(
    sandbox: Sandbox, log: Artifact | None, work: Artifact | None, following: Sandbox | None
) -> list[str]:
    done: list[tuple[datetime, str]] = []
    if sandbox.stop_asked_at is not None:
        done.append((sandbox.stop_asked_at, "asked to wrap up"))
    if work is not None:
        done.append((work.created_at, "its work as it was then kept"))
    if log is not None:
        done.append((log.created_at, "the end of its log kept"))
    if sandbox.ended_at is not None:
        told = f" ({sandbox.reason})" if sandbox.reason else ""
        done.append((sandbox.ended_at, f"counted as {sandbox.state.value.lower()}{told}"))
    if sandbox.removed_at is not None:
        done.append((sandbox.removed_at, "found gone, or removed"))
    if following is not None:
        done.append((following.created_at, f"another attempt made: {following.id}"))
    return [f"{at:%Y-%m-%d %H:%M:%S} {what}" for at, what in sorted(done, key=lambda one: one[0])]
