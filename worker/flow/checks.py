"""In review: what the repository's own checks say about our head. Those that fail become one more message to the agent."""

from __future__ import annotations

import asyncio
from datetime import datetime

import structlog

from app.db.ci import (
    count_fixes,
    failure_message_id,
    find_checked_head,
    record_look,
    record_ready_head,
    record_told,
)
from app.db.effects import record_notice
from app.db.messages import NewMessage, record_message_of_spec
from app.db.models import CheckedHead
from app.domain.ci import (
    MAX_DETAILED,
    NO_CHECKS,
    CiAction,
    FailureFacts,
    Fixes,
    HeadChecks,
    decide_ci,
    is_green,
    render_blocked,
    render_failures,
    render_fix,
    render_given_up,
    without_check_notes,
)
from app.domain.errors import Denied, Gone, Refused, RetryAt, refuses_credentials
from sandbox_payload.wire import MessageType
from worker.step import Step

log = structlog.get_logger("worker.checks")

RETRY_S = 5.0


async def look_at_checks(step: Step) -> datetime | None:
    """Look at them if that is due. Returns when to come back for it, now when something follows; None: not by itself.

    Only a head that we pushed and that is ready for review counts: what other people push is theirs to mend.
    """
    spec = step.spec
    if spec.head_sha is None or spec.pull_ready_at is None or spec.push_sha != spec.head_sha:
        return None
    seen = await _find_head(step, spec.head_sha, spec.pull_ready_at)
    if seen is None or seen.due_at is None:
        return None
    if seen.due_at > step.now():
        return seen.due_at
    try:
        return await _look(step, seen)
    except RetryAt as later:
        return await _put_off(step, seen, max(later.at, step.later(RETRY_S)))
    except (Gone, Denied, Refused) as refused:
        if refuses_credentials(refused):
            raise
        # What else that means, the flow finds out; the work itself does not depend on others' checks.
        log.warning("checks.not_read", error=str(refused))
        return await _put_off(step, seen, None)


async def _find_head(step: Step, head_sha: str, ready_at: datetime) -> CheckedHead | None:
    async with step.parts.db.read() as session:
        seen = await find_checked_head(session, step.spec.id, head_sha)
    if seen is not None and seen.ready_at == ready_at:
        return seen
    async with step.saving() as session:
        await record_ready_head(session, step.spec.id, head_sha, ready_at, step.now())
        return await find_checked_head(session, step.spec.id, head_sha)


async def _put_off(step: Step, seen: CheckedHead, at: datetime | None) -> datetime | None:
    async with step.saving() as session:
        await record_look(session, seen, at)
    return at


async def _look(step: Step, seen: CheckedHead) -> datetime | None:
    github, spec = step.parts.github, step.spec
    pull = await github.fetch_pull(step.repo, spec.pull_number or 0)
    if pull.state != "open" or pull.head_sha != seen.head_sha:
        return await _put_off(step, seen, None)
    head = await github.fetch_head_checks(step.repo, seen.head_sha)
    if is_green(head):
        await _note_green(step)
        return await _put_off(step, seen, None)
    if seen.told_at is not None:
        return await _put_off(step, seen, None)
    async with step.parts.db.read() as session:
        fixes = Fixes(await count_fixes(session, spec.id), step.settings.max_ci_fixes)
    following = decide_ci(head, seen.ready_at, step.now(), fixes)
    match following.action:
        case CiAction.FIX:
            return await _ask(step, seen, head, fixes)
        case CiAction.GIVE_UP:
            return await _give_up(step, seen, head, fixes)
        case CiAction.SAY_NONE:
            await step.save(notes=[*without_check_notes(spec.notes), NO_CHECKS])
        case CiAction.SAY_BLOCKED:
            await step.save(notes=[*without_check_notes(spec.notes), render_blocked(head)])
    return await _put_off(step, seen, following.look_at)


async def _note_green(step: Step) -> None:
    """What was said of checks that failed is past, also when this head's were run again."""
    notes = without_check_notes(step.spec.notes)
    if notes != step.spec.notes:
        await step.save(notes=notes)


async def _ask(step: Step, seen: CheckedHead, head: HeadChecks, fixes: Fixes) -> datetime:
    """One message for this head: to the sandbox that waits, else to one that is made for it."""
    github, spec = step.parts.github, step.spec
    details = await asyncio.gather(
        *(github.fetch_check_details(step.repo, check) for check in head.failed[:MAX_DETAILED])
    )
    facts = FailureFacts(spec.pull_number or 0, seen.head_sha, head.failed, tuple(details))
    text = await asyncio.to_thread(render_failures, facts, step.parts.secrets)
    message_id = failure_message_id(spec.id, seen.head_sha)
    message = NewMessage(MessageType.SYSTEM.value, text, id=message_id)
    notes = [*without_check_notes(spec.notes), render_fix(head, seen.head_sha, fixes)]
    async with step.saving(notes=notes) as session:
        await record_told(session, seen, step.now(), asked=True)
        row = await record_message_of_spec(session, spec.id, message, step.now())
    if row.sandbox_id is not None:
        await step.parts.ring(row.sandbox_id)
    else:
        step.messages_wait = True
    log.info("checks.failed", head_sha=seen.head_sha, checks=len(head.failed))
    return step.again()


async def _give_up(step: Step, seen: CheckedHead, head: HeadChecks, fixes: Fixes) -> datetime:
    """Said once, where people look at the pull request."""
    spec, text = step.spec, render_given_up(head, seen.head_sha, fixes)
    key = f"ci:{spec.id}:{seen.head_sha[:12]}"
    async with step.saving(notes=[*without_check_notes(spec.notes), text]) as session:
        await record_told(session, seen, step.now(), asked=False)
        repo = (spec.installation_id, spec.repo_id)
        await record_notice(session, repo, spec.pull_number, key, text, step.now())
    return step.again()
