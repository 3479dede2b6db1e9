"""Rows that the tests start from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select, update

from app.db.engine import Database
from app.db.models import Sandbox, Spec, Task
from app.db.specs import NewSpec, record_spec
from app.domain.ids import new_sandbox_id
from app.domain.states import Flow, SandboxState

T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def new_spec(**values: Any) -> NewSpec:
    fields: dict[str, Any] = {
        "installation_id": 1,
        "repo_id": 7,
        "issue_number": 1,
        "trigger_key": "label@1",
        "flow": Flow.QUICK,
        "title": "Count the ways",
        "body": "",
        "issue_labels": ("agent:quick",),
        "trigger_label": "agent:quick",
        "labeler_id": 11,
        "labeler_login": "alice",
    }
    return NewSpec(**{**fields, **values})


async def add_spec(db: Database, **values: Any) -> str:
    async with db.write() as session:
        spec_id = await record_spec(session, new_spec(**values), T0)
    assert spec_id is not None
    return spec_id


async def set_spec(db: Database, spec_id: str, **values: Any) -> None:
    async with db.write() as session:
        await session.execute(update(Spec).where(Spec.id == spec_id).values(**values))


async def get_spec(db: Database, spec_id: str) -> Spec:
    async with db.read() as session:
        return (await session.execute(select(Spec).where(Spec.id == spec_id))).scalar_one()


async def get_task(db: Database, spec_id: str) -> Task:
    async with db.read() as session:
        return (await session.execute(select(Task).where(Task.spec_id == spec_id))).scalar_one()


async def add_sandbox(db: Database, spec_id: str, **values: Any) -> str:
    task = await get_task(db, spec_id)
    sandbox_id = new_sandbox_id()
    fields: dict[str, Any] = {
        "id": sandbox_id, "spec_id": spec_id, "task_id": task.id, "attempt": 1, "state": SandboxState.RUNNING,
        "provider": "process", "provider_name": f"iw-test-{sandbox_id}", "token_hash": sandbox_id,
        "start_sha": "a" * 40, "budget_usd": 10.0, "deadline_at": after(3600), "created_at": T0, "updated_at": T0,
    }  # fmt: skip
    async with db.write() as session:
        session.add(Sandbox(**{**fields, **values}))
    return sandbox_id


async def get_sandbox(db: Database, sandbox_id: str) -> Sandbox:
    async with db.read() as session:
        return (await session.execute(select(Sandbox).where(Sandbox.id == sandbox_id))).scalar_one()
