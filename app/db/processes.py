"""Heartbeat rows of our own processes."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
from app.db.models import Process


async def record_beat(
    session: AsyncSession, process_id: str, kind: str, host_id: str, pid: int, version: str, now: datetime
) -> None:
    values = {"kind": kind, "host_id": host_id, "pid": pid, "version": version, "beat_at": now}
    statement = insert_for(session, Process).values(id=process_id, started_at=now, **values)
    await session.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values))


async def list_processes(session: AsyncSession, since_at: datetime) -> list[Process]:
    return list((await session.execute(select(Process).where(Process.beat_at >= since_at))).scalars())


async def find_worker_on(session: AsyncSession, hosts: Collection[str], since_at: datetime) -> str | None:
    """One of `hosts` with a worker that has said something since then; None when there is none."""
    host: str | None = await session.scalar(
        select(Process.host_id)
        .where(Process.kind == "worker", Process.host_id.in_(hosts), Process.beat_at >= since_at)
        .limit(1)
    )
    return host


async def forget_processes(session: AsyncSession, before_at: datetime) -> None:
    await session.execute(delete(Process).where(Process.beat_at < before_at))
