"""What the operator sees of specs, tasks and sandboxes, read from the database: for the API's routes and, without a
server or its libraries, for the commands that list and show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.db.conductor import list_told
from app.db.engine import Database
from app.db.guardian import list_interventions_between
from app.db.operator_views import (
    Place,
    TaskRow,
    find_sandbox_row,
    find_spec_row,
    find_task_row,
    list_sandbox_rows,
    list_spec_checks,
    list_spec_rows,
    list_spec_sandboxes,
    list_task_rows,
)
from app.db.phases import list_phases
from app.db.tasks import list_tasks
from app.web.operator_models import (
    CheckView,
    Page,
    PhaseView,
    SandboxItem,
    SandboxView,
    SpecItem,
    SpecView,
    TaskItem,
    TaskView,
)
from app.web.supervised import read_supervision


async def read_specs(database: Database, after: Place | None, limit: int) -> Page[SpecItem]:
    """Newest first. `after` is where the page before ended."""
    async with database.read() as session:
        rows = await list_spec_rows(session, after, limit + 1)
        told = await list_told(session, {row.spec.id: row.spec.repo_id for row in rows[:limit]})
    items = [SpecItem.of(row, told.get(row.spec.id, ())) for row in rows[:limit]]
    return Page(items=items, next_cursor=_next(rows, limit, "spec"))


async def read_tasks(database: Database, after: Place | None, limit: int) -> Page[TaskItem]:
    """As `read_specs`."""
    async with database.read() as session:
        rows = await list_task_rows(session, after, limit + 1)
    return Page(items=[TaskItem.of(row) for row in rows[:limit]], next_cursor=_next(rows, limit, "task"))


async def read_sandboxes(database: Database, after: Place | None, limit: int) -> Page[SandboxItem]:
    """As `read_specs`."""
    async with database.read() as session:
        rows = await list_sandbox_rows(session, after, limit + 1)
    return Page(
        items=[SandboxItem.of(row) for row in rows[:limit]], next_cursor=_next(rows, limit, "sandbox")
    )


def _next(rows: Sequence[Any], limit: int, of: str) -> str | None:
    """Where the next page begins; None when there is none: `rows` were asked for one more than a page holds. `of` names
    what a row is about.
    """
    if len(rows) <= limit:
        return None
    last = getattr(rows[limit - 1], of)
    return Place(last.created_at, last.id).encode()


async def read_spec(database: Database, spec_id: str) -> SpecView | None:
    async with database.read() as session:
        row = await find_spec_row(session, spec_id)
        if row is None:
            return None
        spec = row.spec
        tasks = await list_tasks(session, spec.id)
        phases = await list_phases(session, spec.id)
        sandboxes = await list_spec_sandboxes(session, spec.id)
        checks = await list_spec_checks(session, spec.id)
        told = await list_told(session, {spec.id: spec.repo_id})
    return SpecView(
        **SpecItem.of(row, told.get(spec.id, ())).model_dump(),
        trigger_label=spec.trigger_label,
        labeler=spec.labeler_login,
        base_branch=spec.base_branch,
        branch=spec.branch,
        head_sha=spec.head_sha,
        pull_request_url=spec.pull_url,
        status_comment_url=spec.status_comment_url,
        outcome_detail=spec.outcome_detail,
        notes=spec.notes,
        cancel_reason=spec.cancel_reason,
        cost_usd=sum(sandbox.spent_usd for sandbox in sandboxes),
        plan_hash=spec.plan_hash,
        plan_comment_url=spec.plan_comment_url,
        approved_by=spec.approved_by,
        settings=spec.settings,
        phases=[PhaseView.of(phase) for phase in phases],
        tasks=[TaskItem.of(TaskRow(task, spec, row.repository)) for task in tasks],
        sandbox_ids=[sandbox.id for sandbox in sandboxes],
        checks=[
            CheckView(head_sha=one.head_sha, check_run_id=one.check_run_id, conclusion=one.conclusion)
            for one in checks
        ],
        ended_at=spec.ended_at,
    )


async def read_task(database: Database, task_id: str) -> TaskView | None:
    async with database.read() as session:
        row = await find_task_row(session, task_id)
    return None if row is None else TaskView.of(row)


async def read_sandbox(database: Database, sandbox_id: str) -> SandboxView | None:
    async with database.read() as session:
        row = await find_sandbox_row(session, sandbox_id)
        if row is None:
            return None
        done = await list_interventions_between(session, sandbox_id, 0, None)
        supervision = await read_supervision(session, row.sandbox)
    return SandboxView.of(row, done).model_copy(update={"supervision": supervision})
