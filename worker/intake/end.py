"""Labels removed, issues closed, pull requests closed, merged or opened again. Deliveries come in any order: what is
true now decides.
"""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import specs
from app.domain.errors import Denied, Gone
from app.domain.ids import IssueNumber
from app.domain.labels import has_label
from app.domain.states import DeliveryState
from app.domain.triggers import Happening, PullEnded, PullReopened, is_label
from worker.intake.addressed import repo_of
from worker.parts import Parts
from worker.verdict import Verdict, cancel_specs


async def cancel(parts: Parts, happening: Happening, reason: str) -> Verdict:
    repo_id, number = repo_of(happening).repo_id, happening.issue_number or 0
    async with parts.db.read() as session:
        live = await specs.find_live_spec(session, repo_id, number)
    if live is None:
        return Verdict("cancel", "no live spec for this issue", DeliveryState.IGNORED)
    if reason == "label_removed" and not is_label(happening, live.trigger_label_id, live.trigger_label):
        return Verdict("cancel", "another label than the one that started it", DeliveryState.IGNORED)
    if reason in {"label_removed", "issue_closed"} and await _undone(parts, happening, reason):
        return Verdict("cancel", "the issue's live state says otherwise", DeliveryState.IGNORED)
    return cancel_specs(parts, "cancel", [live.id], reason)


async def _undone(parts: Parts, happening: Happening, reason: str) -> bool:
    try:
        issue = await parts.github.fetch_issue(repo_of(happening), IssueNumber(happening.issue_number or 0))
    except (Gone, Denied):
        return False
    if reason == "issue_closed":
        return issue.state != "closed"
    return has_label(issue.labels, happening.label or "")


async def note_pull(parts: Parts, happening: Happening, intent: PullEnded | PullReopened) -> Verdict:
    repo_id, number = repo_of(happening).repo_id, happening.pull_number or 0
    async with parts.db.read() as session:
        spec = await specs.find_spec_of_pull(session, repo_id, number)
    if spec is None:
        return Verdict("close", "not a pull request of ours", DeliveryState.IGNORED)
    verdict = Verdict("close", spec_ids=[spec.id])
    state = await _pull_state(parts, happening, intent)

    async def write(session: AsyncSession) -> None:
        now = parts.clock()
        await specs.record_pull_state(session, spec.id, state, now)
        if state == "closed":
            await specs.record_cancel(session, spec.id, "pull_closed", now)
        elif state == "merged":
            # Before the agent is done as well, and whatever else the same merge lets GitHub tell.
            await specs.record_cancel(session, spec.id, "pull_merged", now)

    verdict.writes.append(write)
    return verdict


async def _pull_state(parts: Parts, happening: Happening, intent: PullEnded | PullReopened) -> str:
    """What the payload says, where the live state can't be read."""
    try:
        pull = await parts.github.fetch_pull(repo_of(happening), happening.pull_number or 0)
    except (Gone, Denied):
        if isinstance(intent, PullReopened):
            return "open"
        return "merged" if intent.merged else "closed"
    return "merged" if pull.merged else pull.state
