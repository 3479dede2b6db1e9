"""Events and transcripts of work that ended long ago: found, noted as archived, removed a piece at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, and_, delete, exists, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.artifacts import find_chunk
from app.db.engine import Database
from app.db.models import Artifact, Event, EventText, Sandbox, Spec
from app.domain.ids import SandboxId
from app.domain.states import SANDBOX_LIVE, SPEC_LIVE
from sandbox_payload.wire import ArtifactName


def _is_over(before: datetime) -> ColumnElement[bool]:
    """The spec has ended before that moment; one that lives, or lives again, never counts."""
    return exists().where(Spec.id == Sandbox.spec_id, Spec.state.not_in(SPEC_LIVE), Spec.ended_at < before)


async def list_past_keeping(session: AsyncSession, before: datetime, limit: int) -> Sequence[Sandbox]:
    """Ended sandboxes of work that ended before that moment, whose events are still here; oldest first."""
    statement = (
        select(Sandbox)
        .where(
            Sandbox.events_removed_at.is_(None),
            Sandbox.ended_at.is_not(None),
            Sandbox.ended_at < before,
            Sandbox.state.not_in(SANDBOX_LIVE),
            _is_over(before),
        )
        .order_by(Sandbox.ended_at)
        .limit(limit)
    )
    return (await session.scalars(statement)).all()


async def find_transcript(session: AsyncSession, sandbox_id: str) -> Artifact | None:
    row: Artifact | None = await session.scalar(
        select(Artifact).where(
            Artifact.sandbox_id == sandbox_id, Artifact.name == ArtifactName.TRANSCRIPT, Artifact.current
        )
    )
    return row


async def read_transcript(db: Database, artifact_id: str) -> AsyncIterator[bytes]:
    """Piece by piece."""
    position = 0
    while True:
        async with db.read() as session:
            piece = await find_chunk(session, artifact_id, position)
        if piece is None:
            return
        yield piece
        position += 1


async def record_archived(session: AsyncSession, sandbox_id: str, now: datetime) -> None:
    await session.execute(
        update(Sandbox).where(Sandbox.id == sandbox_id, Sandbox.archived_at.is_(None)).values(archived_at=now)
    )


async def remove_archived(session: AsyncSession, sandbox_id: SandboxId, before: datetime, limit: int) -> bool:
    """Remove at most `limit` events of a sandbox that is archived, and with the last ones its transcript.

    False when there may be more. Raises nothing for a sandbox whose work lives again: its events stay, and it counts as
    done for now.
    """
    unneeded = await session.scalar(
        select(Sandbox.id).where(Sandbox.id == sandbox_id, Sandbox.archived_at.is_not(None), _is_over(before))
    )
    if unneeded is None:
        return True
    seqs = (
        await session.scalars(
            select(Event.seq).where(Event.sandbox_id == sandbox_id).order_by(Event.seq).limit(limit)
        )
    ).all()
    if seqs:
        await session.execute(
            delete(EventText).where(EventText.sandbox_id == sandbox_id, EventText.seq <= seqs[-1])
        )
        await session.execute(delete(Event).where(Event.sandbox_id == sandbox_id, Event.seq <= seqs[-1]))
        return False
    await session.execute(
        delete(Artifact).where(
            and_(Artifact.sandbox_id == sandbox_id, Artifact.name == ArtifactName.TRANSCRIPT)
        )
    )
    return True


async def record_events_removed(
    session: AsyncSession, sandbox_id: str, before: datetime, now: datetime
) -> None:
    """Nothing when the work lives again: then there is more to come."""
    await session.execute(
        update(Sandbox)
        .where(Sandbox.id == sandbox_id, Sandbox.archived_at.is_not(None), _is_over(before))
        .values(events_removed_at=now)
        .execution_options(synchronize_session=False)
    )
