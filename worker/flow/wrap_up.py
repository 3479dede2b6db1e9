"""What an agent is told when its work was cancelled, and how long it may take to wrap up."""

from __future__ import annotations

from datetime import timedelta

from app.db.models import Sandbox
from app.db.wrap_up import find_wrap_up, record_wrap_up, was_interrupted_since, wrap_up_id
from app.domain.notices import WRAP_UP
from app.domain.ports import SandboxStatus
from app.domain.states import SandboxState
from worker.step import Step

WRAP_UP_S = 30.0
WITHOUT_A_WORD = frozenset({"access_lost", "archived", "pull_merged"})
"""Reasons after which nothing that the agent could still do would reach anybody."""


async def is_wrapping_up(step: Step, sandbox: Sandbox, status: SandboxStatus) -> bool:
    """Whether the agent is still given time. It is told once; `/agent stop now` takes the time away, as does an agent
    that is at rest. A planning agent hands in as it goes and has nothing to wrap up.
    """
    spec = step.spec
    at_work = (
        status is SandboxStatus.RUNNING
        and sandbox.state is SandboxState.RUNNING
        and sandbox.task_id is not None
        and sandbox.activity == "working"
        and sandbox.manifest_round <= sandbox.collected_round
    )
    if not at_work or spec.cancel_asked_at is None or spec.cancel_reason in WITHOUT_A_WORD:
        return False
    message_id = wrap_up_id(sandbox.id, spec.cancel_asked_at)
    async with step.parts.db.read() as session:
        if await was_interrupted_since(session, spec.id, spec.cancel_asked_at):
            return False
        told = await find_wrap_up(session, message_id)
    if told is not None:
        return step.now() - told.created_at < timedelta(seconds=WRAP_UP_S)
    async with step.saving() as session:
        recorded = await record_wrap_up(session, sandbox.id, message_id, WRAP_UP, step.now())
    if recorded:
        await step.parts.ring(sandbox.id)
    return recorded
