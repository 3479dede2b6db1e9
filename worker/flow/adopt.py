"""Somebody else moved or deleted the branch. What people push is never overwritten: the work goes on from there."""

from __future__ import annotations

from datetime import datetime

from app.db.specs import record_cancel
from app.domain.notices import HEAD_TAKEN_UP, HEAD_TAKEN_UP_BEGINS
from app.observability.crashpoints import crashpoint
from worker.flow.merged import end_merged
from worker.step import Step


async def run(step: Step) -> datetime:
    told = step.spec.branch_told
    if await find_head(step) is None:
        return await deal_with_no_branch(step)
    await take_up_head(step)
    await step.save(branch_seen=told)
    return step.again()


async def find_head(step: Step) -> str | None:
    """Where the branch stands on GitHub; None when it is gone."""
    found = await step.parts.github.fetch_branch(step.repo, step.spec.branch or "")
    return found.sha if found is not None else None


async def take_up_head(step: Step) -> bool:
    """Make what others pushed the head that everything stands on from now on: the next sandbox starts there, a result
    made on an older one is merged onto it. True when there was something to take up.
    """
    spec = step.spec
    head = await find_head(step)
    if head is None or head in {
        spec.head_sha,
        spec.push_sha,
    }:  # also our own push, cut before it was recorded
        return False
    notes = [note for note in spec.notes if not note.startswith(HEAD_TAKEN_UP_BEGINS)]
    await step.save(head_sha=head, push_sha=None, notes=[*notes, HEAD_TAKEN_UP.format(sha=head[:12])])
    return True


async def deal_with_no_branch(step: Step) -> datetime:
    """Deleting the branch of a pull request ends the work, as closing that would; before there was one it is made
    again, where we left it.
    """
    spec, told = step.spec, step.spec.branch_told
    if spec.pull_number is not None:
        if (await step.parts.github.fetch_pull(step.repo, spec.pull_number)).merged:
            return await end_merged(step)
        async with step.saving(branch_seen=told) as session:
            await record_cancel(session, spec.id, "branch_deleted", step.now())
        return step.again()
    crashpoint("ref.before")
    made = await step.parts.github.ensure_branch(step.repo, spec.branch or "", spec.head_sha or "")
    crashpoint("ref.after")
    if not made:
        # Somebody took the name: another one is looked for, on the same start commit.
        await step.save(branch=None, head_sha=None, push_sha=None)
    await step.save(branch_seen=told)
    return step.again()
