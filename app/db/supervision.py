"""All SQL of the supervision of sandboxes: a few statements for any number of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.locks import claim_lock
from app.db.models import Lock, Phase, Process, Sandbox, Spec
from app.domain.states import SANDBOX_LIVE, SPEC_LIVE, PhaseState, SandboxState
from app.domain.supervision import Listener, Trouble, Watched
from app.domain.supply import Shortage
from sandbox_payload.wire.plan import AGENT_PHASES

_AT_ONCE = 5_000
"""Ids in one statement; SQLite takes 32,766 values, PostgreSQL's protocol as many."""


_AS_THEY_ARE = (
    "state", "created_at", "deadline_at", "ordered_at", "started_at", "last_heartbeat_at", "last_work_at",
    "gap_since_at", "running", "spent_usd", "budget_usd",
)  # fmt: skip
"""Columns that a Watched has under the same name."""
_COLUMNS = (
    Sandbox.id, Sandbox.spec_id, Sandbox.task_id, Sandbox.provider_name, Sandbox.activity, Sandbox.trouble,
    Sandbox.manifest_round, Sandbox.collected_round, Sandbox.ended_at,
    *(getattr(Sandbox, name) for name in _AS_THEY_ARE),
)  # fmt: skip
"""No more than is judged: whole rows of a thousand sandboxes take as long again."""
_AT_PROVIDER = frozenset({Shortage.PROVIDER.value, Shortage.KEY.value, Shortage.LINK.value})


@dataclass(frozen=True)
class Left:
    """A row whose sandbox has nothing more to do, and which was not seen to be gone. `live`: only in the row, since
    its spec has ended.
    """

    sandbox_id: str
    name: str
    live: bool
    ended_at: datetime | None


@dataclass(frozen=True)
class Known:
    """Everything that a provider of this place may still have. `found`: sandboxes whose trouble waits for a step."""

    watched: tuple[Watched, ...]
    found: int
    left: tuple[Left, ...]
    names: frozenset[str]


async def claim_round(
    session: AsyncSession, name: str, owner: str, now: datetime, *, every: timedelta, pause: timedelta
) -> datetime | None:
    """One round for whoever asks first when it is time; since when rounds have followed one another without a longer
    pause than `pause`. None: not now.
    """
    before = (
        await session.execute(select(Lock.until_at, Lock.since_at).where(Lock.name == name))
    ).one_or_none()
    if not await claim_lock(session, name, owner, now, every):
        return None
    since_at: datetime = now
    if before is not None and before.since_at is not None and now - before.until_at <= pause:
        since_at = before.since_at
    await session.execute(update(Lock).where(Lock.name == name).values(since_at=since_at))
    return since_at


async def get_known(session: AsyncSession, host_id: str | None) -> Known:
    """Of the sandboxes of this host, or (None) of a remote provider. Three statements."""
    rows = (
        await session.execute(
            select(
                *_COLUMNS,
                Spec.state.label("spec_state"),
                Spec.concluded_at,
                Spec.queued_at,
                Spec.queue_reason,
            )
            .join(Spec, Spec.id == Sandbox.spec_id)
            .where(Sandbox.removed_at.is_(None), Sandbox.host_id.is_not_distinct_from(host_id))
        )
    ).all()
    phases = await _phases_ended(session)
    watched: list[Watched] = []
    left: list[Left] = []
    found = 0
    for row in rows:
        if row.state not in SANDBOX_LIVE or row.concluded_at is not None:
            left.append(Left(row.id, row.provider_name, row.state in SANDBOX_LIVE, row.ended_at))
        elif row.trouble is not None:
            found += 1
        elif row.spec_state in SPEC_LIVE:
            watched.append(_watched(row, phases))
    names = frozenset(row.provider_name for row in rows)
    return Known(tuple(watched), found, tuple(left), names)


async def _phases_ended(session: AsyncSession) -> Mapping[str, datetime]:
    """Of plans in the making: when the last phase ended, where none runs and the agent still owes some."""
    ended, running = Phase.state == PhaseState.COMPLETED, Phase.state == PhaseState.RUNNING
    statement = (
        select(Phase.spec_id, func.max(Phase.ended_at).label("ended_at"))
        .join(Spec, Spec.id == Phase.spec_id)
        .where(Spec.state.in_(SPEC_LIVE), Phase.name.in_(AGENT_PHASES))
        .group_by(Phase.spec_id)
        .having(
            func.count().filter(running) == 0,
            func.count().filter(ended) < len(AGENT_PHASES),
            func.max(Phase.ended_at).is_not(None),
        )
    )
    return {row.spec_id: row.ended_at for row in await session.execute(statement)}


def _watched(row: Any, phases: Mapping[str, datetime]) -> Watched:
    return Watched(
        sandbox_id=row.id,
        spec_id=row.spec_id,
        name=row.provider_name,
        phase_ended_at=phases.get(row.spec_id) if row.task_id is None else None,
        waiting=row.activity == "waiting",
        handed_in=row.manifest_round > row.collected_round,
        awaits_provider=row.queued_at is not None and row.queue_reason in _AT_PROVIDER,
        **{name: getattr(row, name) for name in _AS_THEY_ARE},
    )


async def list_listeners(session: AsyncSession) -> list[Listener]:
    """The web processes that are known: those that said something within a day."""
    rows = await session.execute(select(Process.started_at, Process.beat_at).where(Process.kind == "web"))
    return [Listener(row.started_at, row.beat_at) for row in rows]


async def record_troubles(
    session: AsyncSession, found: Mapping[Trouble, Collection[Watched]], now: datetime
) -> int:
    """Note what is wrong, unless the row has moved on since, and wake the specs. Returns how many rows it was."""
    noted = 0
    specs: set[str] = set()
    for trouble, boxes in found.items():
        for ids in _slices([one.sandbox_id for one in boxes]):
            statement = (
                update(Sandbox)
                .where(
                    Sandbox.id.in_(ids),
                    Sandbox.trouble.is_(None),
                    Sandbox.state.in_(SANDBOX_LIVE),
                    Sandbox.manifest_round <= Sandbox.collected_round,
                )
                .values(trouble=trouble.value, updated_at=now)
                .returning(Sandbox.spec_id)
                .execution_options(synchronize_session=False)
            )
            woken = list(await session.scalars(statement))
            noted += len(woken)
            specs.update(woken)
    for ids in _slices(sorted(specs)):
        await session.execute(
            update(Spec)
            .where(Spec.id.in_(ids))
            .values(version=Spec.version + 1, updated_at=now)
            .execution_options(synchronize_session=False)
        )
    return noted


async def record_removed(session: AsyncSession, sandbox_ids: Sequence[str], now: datetime) -> None:
    """The provider has none of these any more. Rows that still count as live belong to specs that have ended."""
    for ids in _slices(sandbox_ids):
        await session.execute(
            update(Sandbox)
            .where(Sandbox.id.in_(ids), Sandbox.state.in_(SANDBOX_LIVE))
            .values(state=SandboxState.COMPLETED, reason="ended", ended_at=now)
            .execution_options(synchronize_session=False)
        )
        await session.execute(
            update(Sandbox)
            .where(Sandbox.id.in_(ids), Sandbox.removed_at.is_(None))
            .values(removed_at=now, updated_at=now)
            .execution_options(synchronize_session=False)
        )


def _slices(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]
