"""All SQL of the conductor: live specs side by side. A few statements for any number of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Effect, GuardianTrail, Sandbox, Spec, Task
from app.domain.conductor import Link, LiveSpec, Queued, notice_key
from app.domain.states import SPEC_LIVE, TaskState
from app.domain.supply import Shortage

_AT_ONCE = 1_000
_MAX_SPECS = 5_000
_COLUMNS = (
    Spec.id, Spec.installation_id, Spec.repo_id, Spec.issue_number, Spec.title, Spec.created_at,
)  # fmt: skip


async def list_side_by_side(session: AsyncSession) -> list[LiveSpec]:
    """Live specs of repositories that have more than one, with the files that they are known to change."""
    shared = (
        select(Spec.repo_id).where(Spec.state.in_(SPEC_LIVE)).group_by(Spec.repo_id).having(func.count() > 1)
    )
    statement = (
        select(*_COLUMNS)
        .where(Spec.state.in_(SPEC_LIVE), Spec.cancel_asked_at.is_(None), Spec.repo_id.in_(shared))
        .order_by(Spec.created_at.desc())
        .limit(_MAX_SPECS)
    )
    rows = (await session.execute(statement)).all()
    paths = await _list_paths(session, [row.id for row in rows])
    return [_live(row, frozenset(paths[row.id])) for row in rows]


def _live(row: Any, paths: frozenset[str] = frozenset()) -> LiveSpec:
    return LiveSpec(
        row.id, row.installation_id, row.repo_id, row.issue_number, row.title, row.created_at,
        paths=paths,
    )  # fmt: skip


async def _list_paths(session: AsyncSession, spec_ids: Sequence[str]) -> Mapping[str, set[str]]:
    """What tasks name, and what agents have changed."""
    found: dict[str, set[str]] = defaultdict(set)
    for ids in _slices(spec_ids):
        planned = select(Task.spec_id, Task.detail).where(
            Task.spec_id.in_(ids), Task.state != TaskState.CANCELLED
        )
        for row in await session.execute(planned):
            found[row.spec_id].update(one["path"] for one in row.detail.get("files") or ())
        changed = (
            select(Sandbox.spec_id, GuardianTrail.trail)
            .join(Sandbox, Sandbox.id == GuardianTrail.sandbox_id)
            .where(Sandbox.spec_id.in_(ids), Sandbox.task_id.is_not(None))
        )
        for row in await session.execute(changed):
            found[row.spec_id].update(row.trail.get("touched", ()))
    return found


async def list_bodies(session: AsyncSession, spec_ids: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for ids in _slices(spec_ids):
        rows = await session.execute(select(Spec.id, Spec.body).where(Spec.id.in_(ids)))
        found.update((row.id, row.body) for row in rows)
    return found


async def list_queued(session: AsyncSession) -> list[Queued]:
    """Who waits for a place, a provider or the web process: not for money, nor for a key that people are told of."""
    statement = select(*_COLUMNS, Spec.queued_at).where(
        Spec.queued_at.is_not(None),
        Spec.state.in_(SPEC_LIVE),
        Spec.queue_reason.in_([one.value for one in (Shortage.SANDBOXES, Shortage.PROVIDER, Shortage.LINK)]),
    )
    return [Queued(_live(row), row.queued_at) for row in await session.execute(statement)]


async def find_last_work(session: AsyncSession) -> datetime | None:
    """When any agent that is still there did anything. A tool that runs is work, as each sign of life says anew."""
    worked_at = case((Sandbox.running.is_not(None), Sandbox.last_heartbeat_at), else_=Sandbox.last_work_at)
    statement = select(func.max(worked_at)).where(Sandbox.removed_at.is_(None))
    found: datetime | None = await session.scalar(statement)
    return found


async def list_told(session: AsyncSession, specs: Mapping[str, int]) -> dict[str, list[str]]:
    """What people were told about specs (id to repository), as values of Link."""
    keys = {
        f"{repo_id}:notice:{notice_key(link, spec_id)}": (spec_id, link.value)
        for spec_id, repo_id in specs.items()
        for link in Link
    }
    found: dict[str, list[str]] = defaultdict(list)
    for key in await session.scalars(select(Effect.key).where(Effect.key.in_(keys))):
        spec_id, link = keys[key]
        found[spec_id].append(link)
    return {spec_id: sorted(links) for spec_id, links in found.items()}


def _slices(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]
