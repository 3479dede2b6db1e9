"""All SQL about check runs: one row per head of a spec's branch."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
from app.db.models import CheckRun


async def list_checks(session: AsyncSession, spec_id: str) -> list[CheckRun]:
    statement = select(CheckRun).where(CheckRun.spec_id == spec_id).order_by(CheckRun.created_at)
    return list((await session.execute(statement)).scalars())


async def record_check(session: AsyncSession, spec_id: str, head_sha: str, now: datetime) -> None:
    """That this head is to have a check run; again is a no-op."""
    statement = insert_for(session, CheckRun).values(spec_id=spec_id, head_sha=head_sha, created_at=now)
    await session.execute(statement.on_conflict_do_nothing())


async def set_check(
    session: AsyncSession,
    key: tuple[str, str],
    *,
    check_run_id: int,
    conclusion: str | None,
    output_sha: str,
    now: datetime,
) -> None:
    """What was written to GitHub for the check run of `key` = (spec id, head)."""
    await session.execute(
        update(CheckRun)
        .where(CheckRun.spec_id == key[0], CheckRun.head_sha == key[1])
        .values(check_run_id=check_run_id, conclusion=conclusion, output_sha=output_sha, written_at=now)
    )
