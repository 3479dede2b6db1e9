"""All SQL about sandboxes that the worker needs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Artifact, ArtifactChunk, Sandbox
from app.domain.errors import Fenced
from app.domain.states import SANDBOX_LIVE, SANDBOX_MOVES, SandboxState, sources_of


async def list_of_spec(session: AsyncSession, spec_id: str) -> list[Sandbox]:
    """Oldest first."""
    statement = (
        select(Sandbox).where(Sandbox.spec_id == spec_id).order_by(Sandbox.created_at, Sandbox.attempt)
    )
    return list((await session.execute(statement)).scalars())


def _of(spec_id: str, task_id: str | None) -> ColumnElement[bool]:
    """The sandboxes of a task; with None, those that plan the spec."""
    return and_(
        Sandbox.spec_id == spec_id, Sandbox.task_id == task_id if task_id else Sandbox.task_id.is_(None)
    )


async def next_attempt(session: AsyncSession, spec_id: str, task_id: str | None) -> int:
    statement = select(func.coalesce(func.max(Sandbox.attempt), 0)).where(_of(spec_id, task_id))
    return int((await session.execute(statement)).scalar_one()) + 1


async def move_sandbox(
    session: AsyncSession, sandbox_id: str, target: SandboxState, now: datetime, **values: Any
) -> None:
    """Enter `target` (again is fine). Raises Fenced when the table of moves does not allow it."""
    allowed = {*sources_of(SANDBOX_MOVES, target), target}
    if target not in SANDBOX_LIVE:
        values.setdefault("ended_at", now)
    statement = (
        update(Sandbox)
        .where(Sandbox.id == sandbox_id, Sandbox.state.in_(allowed))
        .values(state=target, updated_at=now, **values)
        .returning(Sandbox.id)
    )
    if (await session.execute(statement)).scalar_one_or_none() is None:
        raise Fenced(f"sandbox {sandbox_id}: can't become {target}")


async def set_sandbox(session: AsyncSession, sandbox_id: str, now: datetime, **values: Any) -> None:
    await session.execute(update(Sandbox).where(Sandbox.id == sandbox_id).values(updated_at=now, **values))


async def list_not_removed(session: AsyncSession, host_id: str | None, limit: int = 500) -> list[Sandbox]:
    """Sandboxes that a provider may still have, of this host (or of a remote provider)."""
    statement = (
        select(Sandbox)
        .where(Sandbox.removed_at.is_(None), or_(Sandbox.host_id == host_id, Sandbox.host_id.is_(None)))
        .limit(limit)
    )
    return list((await session.execute(statement)).scalars())


async def find_artifact(session: AsyncSession, sandbox_id: str, name: str) -> Artifact | None:
    statement = select(Artifact).where(
        and_(Artifact.sandbox_id == sandbox_id, Artifact.name == name, Artifact.current)
    )
    return (await session.execute(statement)).scalar_one_or_none()


async def find_next_attempt(session: AsyncSession, sandbox: Sandbox) -> Sandbox | None:
    """The sandbox made for the same task (or for planning the same spec) after this one."""
    statement = (
        select(Sandbox)
        .where(_of(sandbox.spec_id, sandbox.task_id), Sandbox.created_at > sandbox.created_at)
        .order_by(Sandbox.created_at, Sandbox.attempt)
        .limit(1)
    )
    return (await session.execute(statement)).scalar_one_or_none()


async def find_latest_transcript(
    session: AsyncSession, spec_id: str, task_id: str | None
) -> tuple[Sandbox, Artifact] | None:
    """The newest saved session of a task (with None, of planning), for a sandbox that goes on with it."""
    return await _find_transcript(session, _of(spec_id, task_id))


async def find_last_transcript(session: AsyncSession, spec_id: str) -> tuple[Sandbox, Artifact] | None:
    """The newest saved session of all tasks of the spec."""
    return await _find_transcript(session, and_(Sandbox.spec_id == spec_id, Sandbox.task_id.is_not(None)))


async def _find_transcript(
    session: AsyncSession, which: ColumnElement[bool]
) -> tuple[Sandbox, Artifact] | None:
    statement = (
        select(Sandbox, Artifact)
        .join(
            Artifact,
            and_(Artifact.sandbox_id == Sandbox.id, Artifact.name == "transcript.tar.gz", Artifact.current),
        )
        .where(which, Sandbox.session_id.is_not(None))
        .order_by(Sandbox.created_at.desc(), Sandbox.attempt.desc())
        .limit(1)
    )
    row = (await session.execute(statement)).first()
    return (row[0], row[1]) if row else None


async def get_artifact_bytes(session: AsyncSession, artifact_id: str) -> bytes:
    statement = (
        select(ArtifactChunk.data)
        .where(ArtifactChunk.artifact_id == artifact_id)
        .order_by(ArtifactChunk.position)
    )
    return b"".join((await session.execute(statement)).scalars())
