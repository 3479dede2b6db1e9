"""The Retry button of a check run, and GitHub's own re-run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import specs
from app.db.models import Spec
from app.db.retries import record_retry
from app.domain.errors import RetryAt
from app.domain.markers import notice_marker
from app.domain.notices import NO_RETRY, render_no_retry
from app.domain.replies import LABEL_GONE, RetryRefusal
from app.domain.states import DeliveryState, SpecState
from app.domain.triggers import Happening
from app.domain.view import Outcome
from worker.intake.addressed import may_write, owe_notice, repo_of
from worker.parts import Parts
from worker.verdict import Verdict

NOTHING_TO_RETRY = "there is nothing to try again"


async def rerun(parts: Parts, happening: Happening, app_id: int) -> Verdict:
    """Raises RetryAt while the end is still being told: the check run has its button before the rest is written."""
    if happening.check_app_id is not None and happening.check_app_id != app_id:
        return Verdict("retry", "a check run of another App", DeliveryState.IGNORED)
    repo = repo_of(happening)
    async with parts.db.read() as session:
        if happening.check_head_sha:
            spec = await specs.find_spec_of_head(session, repo.repo_id, happening.check_head_sha)
        else:
            spec = await specs.find_spec_of_check(session, repo.repo_id, happening.check_run_id or 0)
    if spec is None:
        return Verdict("retry", "not a check run of ours", DeliveryState.IGNORED)
    if not await may_write(parts, happening):
        return Verdict("retry", "refused: no write access", DeliveryState.IGNORED)
    verdict = Verdict("retry", spec_ids=[spec.id])

    async def write(session: AsyncSession) -> None:
        refused = await record_retry(session, spec.id, parts.clock())
        if refused is None:
            return
        if refused.reason is RetryRefusal.ENDING:
            raise RetryAt("its end is still being told", parts.clock() + timedelta(seconds=1))
        verdict.state, verdict.reason = DeliveryState.IGNORED, NOTHING_TO_RETRY
        key = f"{NO_RETRY}:{spec.id}"
        body = _why_not(spec, key, happening.sender_login)
        if body:
            about = replace(happening, issue_number=spec.issue_number)
            await owe_notice(parts, verdict, about, key, body)(session)

    verdict.writes.append(write)
    return verdict


def _why_not(spec: Spec, key: str, login: str) -> str:
    """Where people could not know that there is nothing to try again; '' while it is at work."""
    if spec.outcome == Outcome.DONE or spec.state is SpecState.COMPLETED:
        return render_no_retry(key, login)
    return f"{notice_marker(key)}\n{LABEL_GONE}" if spec.label_gone else ""
