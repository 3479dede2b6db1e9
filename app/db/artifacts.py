"""Artifacts: files handed over by sandboxes, kept in pieces so that neither side holds one whole."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Artifact, ArtifactChunk, Sandbox
from app.domain.ids import SandboxId, SpecId

CHUNK_BYTES = 1_000_000

ABANDONED_AFTER = timedelta(minutes=30)
"""An upload that has not become current by then lost its process; longer than any upload may take."""


async def record_upload(
    session: AsyncSession, sandbox_id: SandboxId, name: str, sha256: str, now: datetime
) -> str:
    """A new, still invisible artifact; its id. Removes uploads of the same name that were left behind."""
    await session.execute(
        delete(Artifact).where(
            Artifact.sandbox_id == sandbox_id,
            Artifact.name == name,
            Artifact.current.is_(False),
            Artifact.created_at < now - ABANDONED_AFTER,
        )
    )
    artifact_id = f"art_{secrets.token_hex(12)}"
    await session.execute(
        insert(Artifact).values(
            id=artifact_id,
            sandbox_id=sandbox_id,
            name=name,
            sha256=sha256,
            size=0,
            current=False,
            created_at=now,
        )
    )
    return artifact_id


async def record_chunk(session: AsyncSession, artifact_id: str, position: int, data: bytes) -> None:
    await session.execute(insert(ArtifactChunk).values(artifact_id=artifact_id, position=position, data=data))


async def record_current(
    session: AsyncSession, sandbox_id: SandboxId, name: str, artifact_id: str, size: int
) -> None:
    """The upload takes the place of what had that name, which is removed. The sandbox's row is locked by the caller."""
    await session.execute(
        delete(Artifact).where(
            Artifact.sandbox_id == sandbox_id, Artifact.name == name, Artifact.current.is_(True)
        )
    )
    await session.execute(
        update(Artifact)
        .where(Artifact.id == artifact_id)
        .values(current=True, size=size)
        .execution_options(synchronize_session=False)
    )


async def remove_upload(session: AsyncSession, artifact_id: str) -> None:
    await session.execute(delete(Artifact).where(Artifact.id == artifact_id, Artifact.current.is_(False)))


async def find_spec_artifact(session: AsyncSession, spec_id: SpecId, names: Sequence[str]) -> Artifact | None:
    """The newest complete artifact of a spec's sandboxes under the first of `names` that has any."""
    for name in names:
        row: Artifact | None = await session.scalar(
            select(Artifact)
            .join(Sandbox, Sandbox.id == Artifact.sandbox_id)
            .where(Sandbox.spec_id == spec_id, Artifact.name == name, Artifact.current.is_(True))
            .order_by(Artifact.created_at.desc(), Artifact.id.desc())
            .limit(1)
        )
        if row is not None:
            return row
    return None


async def find_chunk(session: AsyncSession, artifact_id: str, position: int) -> bytes | None:
    """The piece at `position` (from 0); None past the end, or when the artifact has been replaced."""
    data: bytes | None = await session.scalar(
        select(ArtifactChunk.data).where(
            ArtifactChunk.artifact_id == artifact_id, ArtifactChunk.position == position
        )
    )
    return data
