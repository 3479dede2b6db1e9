"""The row of a new attempt, once there is a place and money for it; else the spec waits its turn, and people see for what."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.accounts import find_account_name
from app.db.messages import claim_waiting_messages
from app.db.models import Sandbox, Spec
from app.db.phases import record_phases
from app.db.sandboxes import next_attempt
from app.db.specs import save_spec
from app.db.supply import get_taken, list_waiting_specs, lock_supply
from app.db.tasks import move_task
from app.domain.ids import new_sandbox_id
from app.domain.states import PhaseState, SandboxState, TaskState
from app.domain.supervision import decide_memory_gb, is_out_of_memory
from app.domain.supply import Granted, Queued, Shortage, Waiting, decide_grant, is_same_queue, parse_shortage
from worker.flow.order import DEADLINE_MARGIN_S, sandbox_token
from worker.step import Step

LOOK_S = {
    Shortage.SANDBOXES: 10.0,
    Shortage.PROVIDER: 30.0,
    Shortage.KEY: 60.0,
    Shortage.HAND_IN: 60.0,
    Shortage.APP: 20.0,
    Shortage.LINK: 20.0,
    Shortage.SPEC_BUDGET: 60.0,
    Shortage.SPEC_BUDGET_HELD: 10.0,
    Shortage.DAY_BUDGET: 60.0,
    Shortage.DAY_BUDGET_HELD: 10.0,
}
"""When a spec that waits asks again; nothing wakes it before."""


async def begin_attempt(step: Step, *, planning: bool) -> Sandbox | Queued:
    """One commit: the place is taken by the row itself, so a crash right after it loses neither."""
    async with step.saving() as session:
        answer = await _ask(session, step)
        if isinstance(answer, Queued):
            await note_wait(session, step, answer)
            return answer
        await note_wait(session, step, None)
        sandbox = await _record(session, step, answer.budget_usd, planning=planning)
    step.sandboxes.append(sandbox)
    return sandbox


async def _ask(session: AsyncSession, step: Step) -> Granted | Queued:
    spec, now = step.spec, step.now()
    await lock_supply(session, now)
    queue = await list_waiting_specs(session, now)
    taken = await get_taken(session, spec, now)
    me = Waiting(spec.id, spec.repo_id, spec.queued_at or now, _waits_for(spec))
    return decide_grant(me, queue, taken, step.parts.limits.supply, step.settings.budget_usd)


async def note_wait(session: AsyncSession, step: Step, queued: Queued | None) -> None:
    """For what the spec waits; None: for nothing any more. Noted anew with each look, which keeps its place."""
    spec = step.spec
    values: dict[str, object] = {"queued_at": None, "queue_reason": None, "queue_place": None}
    if queued is not None:
        same = is_same_queue(_waits_for(spec), queued.shortage)
        values = {
            "queued_at": spec.queued_at if same else step.now(),
            "queue_reason": queued.shortage.value,
            "queue_place": queued.place or None,
        }
    elif spec.queued_at is None:
        return
    await save_spec(session, spec.id, step.claim.fence, values, step.now())
    for name, value in values.items():
        setattr(spec, name, value)


def _waits_for(spec: Spec) -> Shortage | None:
    return parse_shortage(spec.queue_reason) if spec.queued_at is not None else None


def ask_again_at(step: Step, queued: Queued) -> datetime:
    return step.later(LOOK_S[queued.shortage])


def deadline_from(step: Step, begin_at: datetime) -> datetime:
    limits = step.parts.limits
    return begin_at + timedelta(seconds=limits.task_timeout_s + limits.idle_s + DEADLINE_MARGIN_S)


async def _record(session: AsyncSession, step: Step, budget_usd: float, *, planning: bool) -> Sandbox:
    """Its name is what a later worker finds the machine by."""
    settings, now, spec = step.settings, step.now(), step.spec
    task_id = None if planning else step.task.id
    sandbox_id = new_sandbox_id()
    phase = None
    if planning:
        rows = await record_phases(session, spec.id, now)
        phase = next((row.name for row in rows if row.state is not PhaseState.COMPLETED), None)
        step.phases = rows
    remote = step.parts.sandboxes.kind == "daytona"
    sandbox = Sandbox(
        id=sandbox_id, account_of=await find_account_name(session, spec) if remote else None, spec_id=spec.id, task_id=task_id, phase=phase,
        attempt=await next_attempt(session, spec.id, task_id), state=SandboxState.PENDING,
        provider=step.parts.sandboxes.kind, provider_name=f"iw-{step.parts.instance}-{sandbox_id}",
        host_id=step.parts.local_host, start_sha=(spec.base_sha if planning else spec.head_sha) or "",
        model=settings.model, memory_gb=_memory_gb(step, planning=planning),
        token_hash=hashlib.sha256(sandbox_token(step.parts.token_key, sandbox_id).encode()).hexdigest(),
        budget_usd=budget_usd, spent_usd=0.0, reserved_usd=0.0, noted_seq=0, last_seq=0, turns=0, tools=0,
        collected_round=0, manifest_round=0, created_at=now, updated_at=now, deadline_at=deadline_from(step, now),
    )  # fmt: skip
    session.add(sandbox)
    await session.flush()
    await claim_waiting_messages(session, spec.id, sandbox_id, now)
    if not planning:
        await move_task(session, step.task.id, TaskState.ASSIGNED, now, attempts=step.task.attempts + 1)
    return sandbox


def _memory_gb(step: Step, *, planning: bool) -> int:
    """Larger when the one before ran out of it."""
    wanted = step.settings.memory_gb
    before = step.planning_sandbox if planning else step.sandbox
    if before is None:
        return wanted
    return decide_memory_gb(
        wanted,
        before.memory_gb,
        step.parts.limits.memory_max_gb or step.parts.limits.memory_gb,
        out_of_memory=is_out_of_memory(before.reason or "", before.exit_code),
    )
