"""A label that asks for work: who set it, is it still there, and is there work already?"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import specs
from app.domain.errors import RetryAt
from app.domain.ids import IssueNumber
from app.domain.labels import has_label
from app.domain.notices import NO_WRITE, render_no_write
from app.domain.states import DeliveryState
from app.domain.triggers import Happening, Start
from worker.intake.addressed import may_write, refuse, repo_of, sender_of
from worker.intake.heard_before import hear_again
from worker.parts import Parts
from worker.verdict import Verdict


async def start(parts: Parts, happening: Happening, intent: Start) -> Verdict:
    repo, number = repo_of(happening), happening.issue_number or 0
    live = await parts.github.fetch_issue(repo, IssueNumber(number))
    if not has_label(live.labels, intent.label):
        return Verdict("start", "the label is not there any more", DeliveryState.IGNORED)
    if live.state == "closed":
        return Verdict("start", "the issue is closed", DeliveryState.IGNORED)
    if not await may_write(parts, happening):
        sender = sender_of(happening)
        key = f"{NO_WRITE}:{number}:{sender.user_id}"
        body = render_no_write(key, sender.login, intent.label)
        return refuse(parts, happening, key, body, "refused: no write access")
    return await _record(parts, happening, intent)


async def _record(parts: Parts, happening: Happening, intent: Start) -> Verdict:
    repo_id, number = repo_of(happening).repo_id, happening.issue_number or 0
    key = intent.trigger_key
    async with parts.db.read() as session:
        live = await specs.find_live_spec(session, repo_id, number)
        same = await specs.find_spec_of_trigger(session, repo_id, number, key)
        newest = await specs.find_newest_label_event(session, repo_id, number)
    if live is not None and live.cancel_asked_at is not None:
        # Set again while the old run still winds down: its turn comes when that one has ended.
        raise RetryAt("the earlier run is still ending", parts.clock() + timedelta(seconds=1))
    if live is not None:
        return Verdict("start", f"spec {live.id} is live for this issue", DeliveryState.IGNORED)
    if same is not None:
        if same.cancel_reason != "label_removed":
            return Verdict("start", f"this label event made spec {same.id}", DeliveryState.IGNORED)
        # Removed and set again within the same second: GitHub's times can't tell the two events apart.
        key = f"{key}+{same.id}"
    if newest is not None and intent.labeled_at is not None and intent.labeled_at < newest:
        # The label on the issue now is the one of the later event, which has had its run.
        return Verdict("start", "a later label event was worked on", DeliveryState.IGNORED)
    new = specs.NewSpec(
        installation_id=happening.installation_id or 0, repo_id=repo_id, issue_number=number, trigger_key=key,
        flow=intent.flow, title=happening.issue_title.replace("\0", ""),
        body=happening.issue_body.replace("\0", ""),
        issue_labels=happening.issue_labels, trigger_label=intent.label, labeler_id=happening.sender_id or 0,
        labeler_login=happening.sender_login, trigger_label_id=happening.label_id, labeled_at=intent.labeled_at,
    )  # fmt: skip
    verdict = Verdict("start")

    async def write(session: AsyncSession) -> None:
        spec_id = await specs.record_spec(session, new, parts.clock())
        if spec_id is None:
            verdict.state, verdict.reason = DeliveryState.IGNORED, "another delivery started it"
        else:
            verdict.spec_ids.append(spec_id)
            if new.labeled_at is not None:
                await hear_again(session, happening, new.labeled_at, parts.clock())

    verdict.writes.append(write)
    return verdict
