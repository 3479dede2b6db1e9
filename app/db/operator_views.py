"""What operators look at: lists, newest first, paged by a cursor that survives new rows."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Select, and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import CheckRun, Process, Repository, Sandbox, Spec, Task
from app.domain.states import SANDBOX_LIVE, SandboxState, SpecState

SelectT = TypeVar("SelectT", bound=Select[*tuple[Any, ...]])


class BadCursor(ValueError):
    """Not a cursor that we made."""


@dataclass(frozen=True)
class Place:
    """Where a page ended: the row with this creation time and id. The next page holds what is older."""

    created_at: datetime
    id: str

    def encode(self) -> str:
        text = json.dumps([self.created_at.isoformat(), self.id])
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, cursor: str) -> Place:
        """Raises BadCursor."""
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            at, row_id = json.loads(base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True))
            place = cls(datetime.fromisoformat(at), str(row_id))
        except (ValueError, TypeError, binascii.Error, RecursionError):
            raise BadCursor(cursor[:80]) from None
        if place.created_at.tzinfo is None or "\x00" in place.id or not 1970 < place.created_at.year < 9000:
            raise BadCursor(cursor[:80])
        return place


@dataclass(frozen=True)
class SpecRow:
    spec: Spec
    repository: str


@dataclass(frozen=True)
class TaskRow:
    task: Task
    spec: Spec
    repository: str


@dataclass(frozen=True)
class SandboxRow:
    sandbox: Sandbox
    spec: Spec
    repository: str


def _full_name(repository: Repository | None, spec: Spec) -> str:
    """Names are labels that change; the number stands in while we have none."""
    return f"{repository.owner}/{repository.name}" if repository is not None else f"#{spec.repo_id}"


def _page(statement: SelectT, table: type[Spec | Task | Sandbox], after: Place | None, limit: int) -> SelectT:
    if after is not None:
        statement = statement.where(
            or_(
                table.created_at < after.created_at,
                and_(table.created_at == after.created_at, table.id < after.id),
            )
        )
    return statement.order_by(table.created_at.desc(), table.id.desc()).limit(limit)


async def list_spec_rows(session: AsyncSession, after: Place | None, limit: int) -> Sequence[SpecRow]:
    statement = select(Spec, Repository).outerjoin(Repository, Repository.id == Spec.repo_id)
    rows = await session.execute(_page(statement, Spec, after, limit))
    return [SpecRow(spec, _full_name(repository, spec)) for spec, repository in rows]


async def list_task_rows(session: AsyncSession, after: Place | None, limit: int) -> Sequence[TaskRow]:
    statement = (
        select(Task, Spec, Repository)
        .join(Spec, Spec.id == Task.spec_id)
        .outerjoin(Repository, Repository.id == Spec.repo_id)
    )
    rows = await session.execute(_page(statement, Task, after, limit))
    return [TaskRow(task, spec, _full_name(repository, spec)) for task, spec, repository in rows]


async def list_sandbox_rows(session: AsyncSession, after: Place | None, limit: int) -> Sequence[SandboxRow]:
    statement = (
        select(Sandbox, Spec, Repository)
        .join(Spec, Spec.id == Sandbox.spec_id)
        .outerjoin(Repository, Repository.id == Spec.repo_id)
    )
    rows = await session.execute(_page(statement, Sandbox, after, limit))
    return [SandboxRow(sandbox, spec, _full_name(repository, spec)) for sandbox, spec, repository in rows]


async def find_spec_row(session: AsyncSession, spec_id: str) -> SpecRow | None:
    statement = (
        select(Spec, Repository)
        .outerjoin(Repository, Repository.id == Spec.repo_id)
        .where(Spec.id == spec_id)
    )
    row = (await session.execute(statement)).one_or_none()
    return None if row is None else SpecRow(row[0], _full_name(row[1], row[0]))


async def find_task_row(session: AsyncSession, task_id: str) -> TaskRow | None:
    task = await session.get(Task, task_id)
    found = None if task is None else await find_spec_row(session, task.spec_id)
    return None if task is None or found is None else TaskRow(task, found.spec, found.repository)


async def find_sandbox_row(session: AsyncSession, sandbox_id: str) -> SandboxRow | None:
    sandbox = await session.get(Sandbox, sandbox_id)
    found = None if sandbox is None else await find_spec_row(session, sandbox.spec_id)
    return None if sandbox is None or found is None else SandboxRow(sandbox, found.spec, found.repository)


async def list_spec_sandboxes(session: AsyncSession, spec_id: str) -> Sequence[Sandbox]:
    statement = select(Sandbox).where(Sandbox.spec_id == spec_id).order_by(Sandbox.created_at, Sandbox.id)
    return (await session.scalars(statement)).all()


async def list_spec_checks(session: AsyncSession, spec_id: str) -> Sequence[CheckRun]:
    statement = select(CheckRun).where(CheckRun.spec_id == spec_id).order_by(CheckRun.created_at)
    return (await session.scalars(statement)).all()


async def count_specs(session: AsyncSession) -> Mapping[SpecState, int]:
    rows = await session.execute(select(Spec.state, func.count()).group_by(Spec.state))
    return {row[0]: row[1] for row in rows}


async def count_sandboxes(session: AsyncSession) -> Mapping[SandboxState, int]:
    rows = await session.execute(select(Sandbox.state, func.count()).group_by(Sandbox.state))
    return {row[0]: row[1] for row in rows}


async def list_live_sandboxes(session: AsyncSession, limit: int = 1000) -> Sequence[Sandbox]:
    statement = (
        select(Sandbox).where(Sandbox.state.in_(SANDBOX_LIVE)).order_by(Sandbox.created_at).limit(limit)
    )
    return (await session.scalars(statement)).all()


async def find_newest_beat(session: AsyncSession, kind: str) -> datetime | None:
    """When a process of that kind was last heard."""
    beat_at: datetime | None = await session.scalar(
        select(func.max(Process.beat_at)).where(Process.kind == kind)
    )
    return beat_at
