"""The end that everybody hopes for: the pull request was merged."""

from __future__ import annotations

from datetime import datetime

from app.domain.errors import Denied, Gone, refuses_credentials
from app.domain.ids import IssueNumber
from app.domain.states import SpecState
from app.domain.view import Outcome
from app.observability.crashpoints import crashpoint
from worker.flow.thread_answers import owe_merged_answers
from worker.step import Step


async def end_merged(step: Step) -> datetime:
    """Completed, from whatever live state: people may merge before the agent is done. Nothing is pushed any more."""
    if step.spec.pull_state != "merged":
        await step.save(pull_state="merged")
    if not await _into_default_branch(step):
        # GitHub closes the issue only on a merge into the default branch.
        try:
            crashpoint("close_issue.before")
            await step.parts.github.ensure_issue_closed(step.repo, IssueNumber(step.spec.issue_number))
            crashpoint("close_issue.after")
        except (Gone, Denied) as refused:
            if refuses_credentials(refused):
                raise
            # The merge counts all the same.
    if step.spec.state not in {SpecState.IMPLEMENTING, SpecState.IN_REVIEW}:
        # Paused, or just tried again: completed follows on no other state than these two.
        await step.save(state=SpecState.IMPLEMENTING)
    async with step.saving() as session:
        await owe_merged_answers(step, session)
    return await step.end(SpecState.COMPLETED, Outcome.DONE, "")


async def _into_default_branch(step: Step) -> bool:
    """By the live state: base and default branch may be others than when the work began."""
    try:
        default = (await step.parts.github.fetch_repository(step.repo)).default_branch
        pull = await step.parts.github.fetch_pull(step.repo, step.spec.pull_number or 0)
    except (Gone, Denied):
        return step.spec.base_branch == step.spec.default_branch
    return pull.base_ref == default
