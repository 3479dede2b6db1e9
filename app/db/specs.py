"""All SQL about specs: recording, claiming under a lease, guarded saving, waking up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from app.db.dialect import insert_for
from app.db.models import CheckRun, EarlierPull, Spec, Task
from app.domain.errors import Fenced
from app.domain.ids import SpecId, new_spec_id, new_task_id
from app.domain.states import SPEC_LIVE, SPEC_MOVES, Flow, SpecState, TaskState, sources_of

LEASE = timedelta(seconds=90)
"""Unless a caller names another: LEASE_S."""
TOLD_LATE = timedelta(days=30)
"""How long after its end an outcome that could not be told is still news."""


@dataclass(frozen=True)
class NewSpec:
    """What a label event asks for, as it stood in that event."""

    installation_id: int
    repo_id: int
    issue_number: int
    trigger_key: str
    flow: Flow
    title: str
    body: str
    issue_labels: tuple[str, ...]
    trigger_label: str
    labeler_id: int
    labeler_login: str
    trigger_label_id: int | None = None
    labeled_at: datetime | None = None


@dataclass(frozen=True)
class Claim:
    """A lease held: every write names `fence`, and the version says what the step has seen."""

    spec: Spec
    fence: int
    version: int


async def record_spec(session: AsyncSession, new: NewSpec, now: datetime) -> SpecId | None:
    """Insert the spec unless this issue has a live one or this very label event already made one (then None)."""
    spec_id = new_spec_id()
    values = {
        "id": spec_id,
        **{name: getattr(new, name) for name in NewSpec.__dataclass_fields__},
        "issue_labels": list(new.issue_labels),
        "state": SpecState.QUEUED,
        "branch_attempts": 0,
        "notes": [],
        "version": 1,
        "stepped_version": 0,
        "fence": 0,
        "failures": 0,
        "lease_until_at": now,
        "due_at": now,
        "created_at": now,
        "updated_at": now,
    }
    statement = insert_for(session, Spec).values(values).on_conflict_do_nothing().returning(Spec.id)
    inserted = (await session.execute(statement)).scalar_one_or_none()
    if inserted is None:
        return None
    if new.flow is Flow.QUICK:
        session.add(
            Task(
                id=new_task_id(),
                spec_id=spec_id,
                key="T1",
                position=1,
                title=new.title,
                description=new.body,
                state=TaskState.PENDING,
                attempts=0,
                detail={},
                created_at=now,
                updated_at=now,
            )
        )
        await session.flush()
    return spec_id


async def find_spec(session: AsyncSession, spec_id: str) -> Spec | None:
    return (await session.execute(select(Spec).where(Spec.id == spec_id))).scalar_one_or_none()


async def find_live_spec(session: AsyncSession, repo_id: int, issue_number: int) -> Spec | None:
    statement = select(Spec).where(
        Spec.repo_id == repo_id, Spec.issue_number == issue_number, Spec.state.in_(SPEC_LIVE)
    )
    return (await session.execute(statement)).scalar_one_or_none()


async def find_newest_spec(session: AsyncSession, repo_id: int, issue_number: int) -> Spec | None:
    """The live spec of an issue, else the one that began last."""
    live = await find_live_spec(session, repo_id, issue_number)
    if live is not None:
        return live
    statement = (
        select(Spec)
        .where(Spec.repo_id == repo_id, Spec.issue_number == issue_number)
        .order_by(Spec.created_at.desc())
        .limit(1)
    )
    return (await session.execute(statement)).scalar_one_or_none()


async def find_spec_of_trigger(
    session: AsyncSession, repo_id: int, issue_number: int, trigger_key: str
) -> Spec | None:
    statement = select(Spec).where(
        Spec.repo_id == repo_id, Spec.issue_number == issue_number, Spec.trigger_key == trigger_key
    )
    return (await session.execute(statement)).scalar_one_or_none()


async def find_newest_label_event(session: AsyncSession, repo_id: int, issue_number: int) -> datetime | None:
    """When the newest label event that made a spec of this issue happened, by GitHub's clock."""
    statement = select(func.max(Spec.labeled_at)).where(
        Spec.repo_id == repo_id, Spec.issue_number == issue_number
    )
    newest: datetime | None = await session.scalar(statement)
    return newest


async def find_spec_of_pull(session: AsyncSession, repo_id: int, pull_number: int) -> Spec | None:
    """The spec whose pull request that is now."""
    statement = (
        select(Spec)
        .where(Spec.repo_id == repo_id, Spec.pull_number == pull_number)
        .order_by(Spec.created_at.desc())
        .limit(1)
    )
    return (await session.execute(statement)).scalar_one_or_none()


async def find_spec_spoken_of(session: AsyncSession, repo_id: int, pull_number: int) -> Spec | None:
    """The spec that words on that pull request are for: also when it has another one by now."""
    spec = await find_spec_of_pull(session, repo_id, pull_number)
    if spec is not None:
        return spec
    statement = (
        select(Spec)
        .join(EarlierPull, EarlierPull.spec_id == Spec.id)
        .where(EarlierPull.repo_id == repo_id, EarlierPull.pull_number == pull_number)
    )
    return (await session.execute(statement)).scalar_one_or_none()


async def record_earlier_pull(session: AsyncSession, spec: Spec) -> None:
    """The spec, as it was read, gives its pull request up for another one. Again changes nothing."""
    if spec.pull_number is not None:
        left = {"repo_id": spec.repo_id, "pull_number": spec.pull_number, "spec_id": spec.id}
        await session.execute(insert_for(session, EarlierPull).values(left).on_conflict_do_nothing())


async def find_spec_of_check(session: AsyncSession, repo_id: int, check_run_id: int) -> Spec | None:
    statement = (
        select(Spec)
        .join(CheckRun, CheckRun.spec_id == Spec.id)
        .where(Spec.repo_id == repo_id, CheckRun.check_run_id == check_run_id)
    )
    return (await session.execute(statement)).scalars().first()


async def find_spec_of_head(session: AsyncSession, repo_id: int, head_sha: str) -> Spec | None:
    """The spec with a check run on that commit."""
    statement = (
        select(Spec)
        .join(CheckRun, CheckRun.spec_id == Spec.id)
        .where(Spec.repo_id == repo_id, CheckRun.head_sha == head_sha)
    )
    return (await session.execute(statement)).scalars().first()


async def list_live_of(
    session: AsyncSession, *, installation_id: int | None = None, repo_ids: Sequence[int] | None = None
) -> list[Spec]:
    """Live specs of an installation, of some repositories, or of both."""
    statement = select(Spec).where(Spec.state.in_(SPEC_LIVE))
    if installation_id is not None:
        statement = statement.where(Spec.installation_id == installation_id)
    if repo_ids is not None:
        statement = statement.where(Spec.repo_id.in_(repo_ids))
    return list((await session.execute(statement)).scalars())


def _needs_a_step(now: datetime) -> Any:
    return and_(Spec.concluded_at.is_(None), or_(Spec.version > Spec.stepped_version, Spec.due_at <= now))


def _is_free(now: datetime) -> Any:
    """Let go of, or past its time. A holder that let go may have had a clock that is ahead of ours."""
    return or_(Spec.lease_owner.is_(None), Spec.lease_until_at <= now)


async def list_due(session: AsyncSession, now: datetime, limit: int = 50) -> list[SpecId]:
    """Specs that want a step and that nobody holds, the longest waiting first."""
    statement = select(Spec.id).where(_needs_a_step(now), _is_free(now)).order_by(Spec.due_at).limit(limit)
    return [SpecId(spec_id) for spec_id in (await session.execute(statement)).scalars()]


async def claim_spec(
    session: AsyncSession, spec_id: str, owner: str, now: datetime, *, lease: timedelta = LEASE
) -> Claim | None:
    """Take the lease if the spec wants a step and nobody holds it. One statement, so only one caller wins."""
    statement = (
        update(Spec)
        .where(Spec.id == spec_id, _is_free(now), _needs_a_step(now))
        .values(fence=Spec.fence + 1, lease_owner=owner, lease_until_at=now + lease)
        .returning(Spec.fence, Spec.version)
    )
    row = (await session.execute(statement)).one_or_none()
    if row is None:
        return None
    spec = (await session.execute(select(Spec).where(Spec.id == spec_id))).scalar_one()
    return Claim(spec=spec, fence=row.fence, version=row.version)


async def renew_lease(
    session: AsyncSession, spec_id: str, fence: int, now: datetime, *, lease: timedelta = LEASE
) -> bool:
    statement = (
        update(Spec)
        .where(Spec.id == spec_id, Spec.fence == fence)
        .values(lease_until_at=now + lease)
        .returning(Spec.id)
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None


async def save_spec(
    session: AsyncSession, spec_id: str, fence: int, values: Mapping[str, Any], now: datetime
) -> None:
    """The guarded write of a step. Raises Fenced when the lease is no longer ours, or when a state asked for may
    not follow the one that stands.
    """
    conditions = [Spec.id == spec_id, Spec.fence == fence]
    if "state" in values:
        target = SpecState(values["state"])
        conditions.append(Spec.state.in_({*sources_of(SPEC_MOVES, target), target}))
    statement = update(Spec).where(*conditions).values({**values, "updated_at": now}).returning(Spec.id)
    if (await session.execute(statement)).scalar_one_or_none() is None:
        raise Fenced(f"spec {spec_id}: lease lost or state moved")


async def release_spec(
    session: AsyncSession, claim: Claim, due_at: datetime, failures: int, now: datetime, *, deferrals: int = 0
) -> bool:
    """End a step: what it had seen counts as stepped. False when fenced off. A newer version stays due at once."""
    statement = (
        update(Spec)
        .where(Spec.id == claim.spec.id, Spec.fence == claim.fence)
        .values(
            stepped_version=claim.version,
            due_at=due_at,
            failures=failures,
            deferrals=deferrals,
            lease_until_at=now,
            lease_owner=None,
        )
        .returning(Spec.id)
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None


async def record_fact(session: AsyncSession, spec_id: str, now: datetime) -> int:
    """Something the next step must see. Returns the new version (0 when there is no such spec)."""
    return await session.run_sync(bump_version, spec_id, now)


async def record_fact_of(session: AsyncSession, spec_id: str, now: datetime) -> Spec | None:
    """As `record_fact`. Returns the row as it is then; None when there is no such spec."""
    statement = (
        update(Spec)
        .where(Spec.id == spec_id)
        .values(version=Spec.version + 1, updated_at=now)
        .returning(Spec)
        .execution_options(populate_existing=True)
    )
    return (await session.execute(statement)).scalar_one_or_none()


def bump_version(session: Session, spec_id: str, now: datetime) -> int:
    """As `record_fact`, for a transaction that runs in a thread."""
    statement = (
        update(Spec)
        .where(Spec.id == spec_id)
        .values(version=Spec.version + 1, updated_at=now)
        .returning(Spec.version)
    )
    return session.execute(statement).scalar_one_or_none() or 0


async def record_cancel(session: AsyncSession, spec_id: str, reason: str, now: datetime) -> bool:
    """Ask for the end of a live spec; the first reason stays. False when it is not live or already asked for."""
    statement = (
        update(Spec)
        .where(Spec.id == spec_id, Spec.state.in_(SPEC_LIVE), Spec.cancel_asked_at.is_(None))
        .values(cancel_reason=reason, cancel_asked_at=now, version=Spec.version + 1, updated_at=now)
        .returning(Spec.id)
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None


async def record_pull_state(session: AsyncSession, spec_id: str, pull_state: str, now: datetime) -> None:
    statement = (
        update(Spec)
        .where(Spec.id == spec_id)
        .values(pull_state=pull_state, version=Spec.version + 1, updated_at=now)
    )
    await session.execute(statement)


async def record_access_back(session: AsyncSession, installation_id: int, now: datetime) -> list[str]:
    """Access came back, or grew: what people could not be told of this installation's specs is tried again now.
    Returns the specs that this wakes.
    """
    statement = (
        update(Spec)
        .where(
            Spec.installation_id == installation_id,
            or_(Spec.status_untold.is_not(None), Spec.check_untold.is_not(None)),
            or_(Spec.ended_at.is_(None), Spec.ended_at > now - TOLD_LATE),
        )
        .values(
            status_untold=None, status_refused_at=None, check_untold=None, concluded_at=None,
            version=Spec.version + 1, updated_at=now,
        )
        .returning(Spec.id)
    )  # fmt: skip
    return list((await session.execute(statement)).scalars())
