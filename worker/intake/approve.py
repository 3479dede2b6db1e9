"""The label that approves a plan. It names no plan, so it counts only while exactly one has been shown."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import specs
from app.db.approvals import record_approval
from app.domain.ids import IssueNumber
from app.domain.labels import has_label
from app.domain.markers import notice_marker
from app.domain.replies import Approval, render_approval
from app.domain.states import DeliveryState
from app.domain.triggers import Approved, Happening
from worker.intake.addressed import may_write, owe_notice, repo_of
from worker.intake.commands import facts_of
from worker.parts import Parts
from worker.verdict import Verdict


async def approve(parts: Parts, happening: Happening, intent: Approved) -> Verdict:
    repo, number = repo_of(happening), happening.issue_number or 0
    async with parts.db.read() as session:
        live = await specs.find_live_spec(session, repo.repo_id, number)
    if live is None:
        return Verdict("approve", "no live spec for this issue", DeliveryState.IGNORED)
    if not await may_write(parts, happening):
        return Verdict("approve", "refused: no write access", DeliveryState.IGNORED)
    issue = await parts.github.fetch_issue(repo, IssueNumber(number))
    if not has_label(issue.labels, intent.label):
        return Verdict("approve", "the label is not there any more", DeliveryState.IGNORED)
    verdict = Verdict("approve", spec_ids=[live.id])

    async def write(session: AsyncSession) -> None:
        await specs.record_fact(session, live.id, parts.clock())
        spec = await specs.find_spec(session, live.id)
        if spec is None:
            return
        if spec.plan_revision > 1 and spec.approved_hash is None:
            approval = Approval.SEVERAL
        else:
            approval = await record_approval(session, spec.id, None, happening.sender_login, parts.clock())
        text = render_approval(approval, facts_of(spec))
        if text:
            verdict.state, verdict.reason = DeliveryState.IGNORED, f"refused: {approval.value}"
            key = f"approval:{number}:{happening.sender_id}:{happening.issue_updated_at}".replace(" ", "")
            await owe_notice(parts, verdict, happening, key, f"{notice_marker(key)}\n{text}")(session)

    verdict.writes.append(write)
    return verdict
