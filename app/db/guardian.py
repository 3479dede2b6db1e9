"""All SQL of the guardian: whom to look at, what is new there, what is kept, and what was done."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Text, and_, bindparam, cast, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
from app.db.models import Event, GuardianTrail, GuardianVerdict, Intervention, Sandbox, Spec, Task
from app.db.sandbox_access import lock_live
from app.domain.guardian import NUDGED, READ, Finding, Rule
from app.domain.states import SandboxState, SpecState

MAX_EVENT_CHARS = 100_000
"""What is longer was not written by our payload, whose texts are cut: it is passed over unread."""
_PAGE = 100
AT_WORK = (SpecState.PLANNING, SpecState.IMPLEMENTING, SpecState.IN_REVIEW)


@dataclass(frozen=True)
class News:
    """A running agent of which there are events that nobody has looked at: those after `seen_seq`, up to `last_seq`."""

    sandbox_id: str
    spec_id: str
    task_id: str | None
    last_seq: int
    seen_seq: int
    trail: Mapping[str, Any]
    nudged_at: datetime | None
    budget_usd: float
    spent_usd: float
    spec_state: SpecState
    detail: Mapping[str, Any]
    """The task's item of the plan; empty for a quick one and for planning."""
    advice: Advice | None = None


@dataclass(frozen=True)
class Advice:
    """What a model, asked in `call_id` about the events up to `seq`, wants to be said to the agent."""

    call_id: str
    seq: int
    text: str
    advised_at: datetime


def is_at_work() -> tuple[Any, ...]:
    """Nobody is waited for: neither a person nor the end of the sandbox. Needs `sandbox` joined with `spec`."""
    return (
        Sandbox.removed_at.is_(None),
        Sandbox.state == SandboxState.RUNNING,
        Sandbox.activity == "working",
        Sandbox.trouble.is_(None),
        Sandbox.stop_asked_at.is_(None),
        Sandbox.manifest_round <= Sandbox.collected_round,
        Spec.state.in_(AT_WORK),
        Spec.pause_asked_at.is_(None),
        Spec.cancel_asked_at.is_(None),
    )


async def list_news(session: AsyncSession, limit: int) -> list[News]:
    """Those first that were not looked at for longest."""
    seen = func.coalesce(GuardianTrail.seen_seq, 0)
    statement = (
        select(
            Sandbox.id, Sandbox.spec_id, Sandbox.task_id, Sandbox.last_seq, seen.label("seen_seq"),
            GuardianTrail.trail, GuardianTrail.nudged_at, Sandbox.budget_usd, Sandbox.spent_usd,
            Spec.state.label("spec_state"), Task.detail, GuardianVerdict.call_id, GuardianVerdict.asked_seq,
            GuardianVerdict.advice, GuardianVerdict.advised_at,
        )
        .join(Spec, Spec.id == Sandbox.spec_id)
        .outerjoin(Task, Task.id == Sandbox.task_id)
        .outerjoin(GuardianTrail, GuardianTrail.sandbox_id == Sandbox.id)
        .outerjoin(GuardianVerdict, and_(GuardianVerdict.sandbox_id == Sandbox.id, GuardianVerdict.advice != ""))
        .where(*is_at_work(), Sandbox.last_seq > seen)
        .order_by(func.coalesce(GuardianTrail.updated_at, Sandbox.created_at))
        .limit(limit)
    )  # fmt: skip
    rows = (await session.execute(statement)).all()
    return [
        News(
            row.id, row.spec_id, row.task_id, row.last_seq, row.seen_seq, row.trail or {}, row.nudged_at,
            row.budget_usd, row.spent_usd, row.spec_state, row.detail or {},
            Advice(row.call_id, row.asked_seq, row.advice, row.advised_at) if row.advice else None,
        )
        for row in rows
    ]  # fmt: skip


async def stream_events(
    session: AsyncSession, spans: Mapping[str, tuple[int, int]]
) -> AsyncIterator[tuple[str, int, str, dict[str, Any]]]:
    """Sandbox, number, type and data of the events that rules look at, by sandbox and number. `spans`: after which number
    and up to which one, by sandbox. Never held in memory together.
    """
    own = [
        and_(Event.sandbox_id == sandbox_id, Event.seq > after, Event.seq <= upto)
        for sandbox_id, (after, upto) in spans.items()
    ]
    statement = (
        select(Event.sandbox_id, Event.seq, Event.event_type, Event.event_data)
        .where(
            or_(*own),
            Event.event_type.in_([one.value for one in READ]),
            func.length(cast(Event.event_data, Text)) <= MAX_EVENT_CHARS,
        )
        .order_by(Event.sandbox_id, Event.seq)
    )
    rows = await session.stream(statement, execution_options={"yield_per": _PAGE})
    async for page in rows.partitions(_PAGE):  # row by row takes several times as long
        for row in page:
            yield row.sandbox_id, row.seq, row.event_type, row.event_data


@dataclass(frozen=True)
class Trailed:
    """What a look at `news` came to: read up to `seen_seq`."""

    news: News
    seen_seq: int
    trail: Mapping[str, Any]


async def record_trails(session: AsyncSession, looks: Sequence[Trailed], now: datetime) -> None:
    """Those that somebody else has looked at since stay as they are."""
    if looks:
        rows = [_trail_row(look, look.news.nudged_at, now) for look in looks]
        await (await session.connection()).execute(_keep_trail(session), rows)


async def record_trail(
    session: AsyncSession, look: Trailed, now: datetime, nudged_at: datetime | None = None
) -> bool:
    """As `record_trails`, of one; False when somebody else has looked since. `nudged_at`: it was reminded then."""
    row = _trail_row(look, nudged_at or look.news.nudged_at, now)
    done = await (await session.connection()).execute(_keep_trail(session), row)
    return done.rowcount == 1


def _keep_trail(session: AsyncSession) -> Any:
    table = GuardianTrail.__table__
    new = insert_for(session, table)
    values = {name: new.excluded[name] for name in ("seen_seq", "trail", "nudged_at", "updated_at")}
    return new.on_conflict_do_update(
        index_elements=["sandbox_id"], set_=values, where=table.c.seen_seq == bindparam("before")
    )


def _trail_row(look: Trailed, nudged_at: datetime | None, now: datetime) -> dict[str, Any]:
    return {
        "sandbox_id": look.news.sandbox_id, "seen_seq": look.seen_seq, "trail": dict(look.trail),
        "nudged_at": nudged_at, "updated_at": now, "before": look.news.seen_seq,
    }  # fmt: skip


async def lock_at_work(session: AsyncSession, sandbox_id: str) -> Spec | None:
    """The spec of a sandbox whose agent still is at work; the sandbox's row is held until the transaction ends."""
    if await lock_live(session, sandbox_id) is None:
        return None
    statement = (
        select(Spec)
        .join(Sandbox, Sandbox.spec_id == Spec.id)
        .where(Sandbox.id == sandbox_id, *is_at_work())
        .execution_options(populate_existing=True)
    )
    found: Spec | None = await session.scalar(statement)
    return found


async def list_nudges(session: AsyncSession, spec_id: str, task_id: str | None) -> list[Rule]:
    """What the agents of a task were reminded of since a person last let the work go on, in order."""
    statement = (
        select(Intervention.rule)
        .where(
            Intervention.spec_id == spec_id,
            Intervention.task_id.is_not_distinct_from(task_id),
            Intervention.event_type == NUDGED,
            Intervention.settled_at.is_(None),
        )
        .order_by(Intervention.created_at)
    )
    return [Rule(rule) for rule in await session.scalars(statement)]


async def record_intervention(
    session: AsyncSession, news: News, event_type: str, finding: Finding, text: str, now: datetime
) -> uuid.UUID:
    """Once for a finding; its id. The sandbox's row is locked by the caller, so no event comes in between."""
    newest = await session.scalar(select(func.max(Event.seq)).where(Event.sandbox_id == news.sandbox_id))
    intervention_id = finding.message_id(news.sandbox_id)
    await session.execute(
        insert_for(session, Intervention)
        .values(
            id=intervention_id, sandbox_id=news.sandbox_id, spec_id=news.spec_id, task_id=news.task_id,
            at_seq=(newest or 0) + 1, event_type=event_type, rule=finding.rule.value, text=text, created_at=now,
        )
        .on_conflict_do_nothing()
    )  # fmt: skip
    return intervention_id


async def settle_interventions(session: AsyncSession, spec_id: str, now: datetime) -> None:
    """A person let the work go on: it may be reminded as often again."""
    await session.execute(
        update(Intervention)
        .where(Intervention.spec_id == spec_id, Intervention.settled_at.is_(None))
        .values(settled_at=now)
        .execution_options(synchronize_session=False)
    )


async def list_interventions(session: AsyncSession, spec_id: str, limit: int) -> Sequence[Intervention]:
    """Of a spec, the newest last; at most the newest `limit`."""
    statement = (
        select(Intervention)
        .where(Intervention.spec_id == spec_id)
        .order_by(Intervention.created_at.desc(), Intervention.at_seq.desc())
        .limit(limit)
    )
    return (await session.scalars(statement)).all()[::-1]


async def list_interventions_between(
    session: AsyncSession, sandbox_id: str, after: int, upto: int | None
) -> Sequence[Intervention]:
    """Those that stand before an event with a number above `after` and at most `upto` (None: all further ones)."""
    own = [Intervention.sandbox_id == sandbox_id, Intervention.at_seq > after]
    if upto is not None:
        own.append(Intervention.at_seq <= upto)
    statement = (
        select(Intervention)
        .where(*own)
        .order_by(Intervention.at_seq, Intervention.created_at, Intervention.id)
    )
    return (await session.scalars(statement)).all()
