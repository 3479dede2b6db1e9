"""Somebody ended it: the agent has 30 s to wrap up, what it had committed reaches the branch, the branch stays."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from app.db.models import Sandbox
from app.db.sandboxes import find_artifact, move_sandbox, set_sandbox
from app.db.wrap_up import withdraw_wrap_up, wrap_up_id
from app.domain.errors import Denied, Gone, refuses_credentials
from app.domain.notices import CANCEL_TEXTS, KEPT
from app.domain.ports import SandboxSight, SandboxStatus
from app.domain.states import SANDBOX_LIVE, SandboxState, SpecState
from app.domain.view import Outcome
from app.observability.crashpoints import crashpoint
from sandbox_payload.wire import ArtifactName
from worker.flow.adopt import find_head
from worker.flow.cut_round import is_in_round, record_round_to_go_on
from worker.flow.left import is_handed_in
from worker.flow.let_go import ask_to_stop, fetch_sight
from worker.flow.merged import end_merged
from worker.flow.rescue import rescue_checkpoint
from worker.flow.wrap_up import is_wrapping_up
from worker.step import Step

log = structlog.get_logger("worker.cancel")

GRACE_S = 20.0
"""For what the sandbox itself does at its end: commit what is left, hand it over."""
WITHOUT_A_PUSH = frozenset({"access_lost", "archived"})


async def run(step: Step) -> datetime:
    spec = step.spec
    if await _merged(step):
        return await end_merged(step)
    live = [sandbox for sandbox in step.sandboxes if sandbox.state in SANDBOX_LIVE]
    # All of them at once: each has its own 30 s.
    ended = [await _ended(step, sandbox) for sandbox in live]
    if not all(ended):
        return step.later(0.5)
    reason = spec.cancel_reason or ""
    detail = CANCEL_TEXTS.get(reason, reason)
    if await _is_on_the_branch(step):
        detail += " What the agent had committed by then is on the branch."
    return await step.end(SpecState.CANCELLED, Outcome.CANCELLED, detail)


async def _merged(step: Step) -> bool:
    """Merging often closes the issue first: the pull request's live state decides."""
    if step.spec.pull_state == "merged":
        return True
    if step.spec.pull_number is None or step.spec.cancel_reason == "access_lost":
        return False
    try:
        return (await step.parts.github.fetch_pull(step.repo, step.spec.pull_number)).merged
    except (Gone, Denied):
        return False


async def _is_on_the_branch(step: Step) -> bool:
    """Whether work was pushed and its branch is there: people delete branches too. As we left it where nobody can look."""
    if step.spec.branch is None or step.spec.head_sha == step.spec.start_sha:
        return False
    try:
        return await find_head(step) is not None
    except (Gone, Denied) as refused:
        if refuses_credentials(refused):
            raise
        return True


async def _ended(step: Step, sandbox: Sandbox) -> bool:
    """Tell the agent, give it time, ask for the end, take it down. True when it has ended and its work is safe."""
    now, sight = step.now(), await _fetch_sight(step, sandbox)
    if sight is None:
        # Nobody can stop it, or read what is in it: it hears that it ends, and with its row its token does.
        if await is_wrapping_up(step, sandbox, SandboxStatus.RUNNING):
            return False
    elif not await _stopped(step, sandbox, sight):
        return False
    await _save_work(step, sandbox)
    async with step.saving() as session:
        await move_sandbox(session, sandbox.id, SandboxState.COMPLETED, now, reason="cancelled")
        # Also of one that died in it before it was asked to stop.
        if is_in_round(step, sandbox) or _has_uncollected_round(step, sandbox):
            await record_round_to_go_on(step, session)
        if step.spec.cancel_asked_at is not None:
            await withdraw_wrap_up(session, wrap_up_id(sandbox.id, step.spec.cancel_asked_at))
    sandbox.state = SandboxState.COMPLETED
    return True


async def _fetch_sight(step: Step, sandbox: Sandbox) -> SandboxSight | None:
    """None where the provider refuses the key that it is made with, the operator's or somebody's own: whoever cancels
    does not wait for that to be mended.
    """
    try:
        return await fetch_sight(step, sandbox)
    except Denied as denied:
        if denied.reason not in {"account", "sandbox_key"}:
            raise
        log.warning("sandbox.out_of_reach", sandbox_id=sandbox.id, error=str(denied)[:300])
        return None


async def _stopped(step: Step, sandbox: Sandbox, sight: SandboxSight) -> bool:
    """True when nothing of it runs any more, and all that it had ready is with the app."""
    now, provider = step.now(), step.parts.sandboxes
    alive = sight.status in {SandboxStatus.RUNNING, SandboxStatus.CREATING}
    if alive and sandbox.stop_asked_at is None:
        if await is_wrapping_up(step, sandbox, sight.status):
            return False
        await ask_to_stop(step, sandbox, GRACE_S)
        async with step.saving() as session:
            await set_sandbox(session, sandbox.id, now, stop_asked_at=now)
            if is_in_round(step, sandbox):
                await record_round_to_go_on(step, session)  # if somebody retries
        sandbox.stop_asked_at = now
        return False
    asked_at = sandbox.stop_asked_at or now
    if alive and now - asked_at < timedelta(seconds=GRACE_S + 5):
        return False
    if not await is_handed_in(step, sandbox):
        return False
    if alive:
        crashpoint("delete.before")
        await provider.ensure_deleted(sandbox.provider_name)
        crashpoint("delete.after")
    return True


def _has_uncollected_round(step: Step, sandbox: Sandbox) -> bool:
    """Wrapped up, and perhaps half done."""
    in_review = step.spec.state is SpecState.IN_REVIEW and sandbox.task_id is not None
    return in_review and sandbox.manifest_round > sandbox.collected_round


async def _save_work(step: Step, sandbox: Sandbox) -> None:
    """Onto the branch; where GitHub takes nothing any more it stays on the server, and that is said."""
    if step.spec.cancel_reason not in WITHOUT_A_PUSH:
        try:
            await rescue_checkpoint(step, sandbox)
            return
        except (Gone, Denied) as refused:
            if refuses_credentials(refused):
                raise
            log.warning("work.not_pushed", sandbox_id=sandbox.id, error=str(refused))
    async with step.parts.db.read() as session:
        kept = await find_artifact(session, sandbox.id, ArtifactName.CHECKPOINT.value)
    if kept is not None:
        await step.add_note(KEPT.format(spec_id=step.spec.id))
