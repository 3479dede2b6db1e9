"""The work is on the branch: body, check run, ready for review, review asked of whoever set the label."""

from __future__ import annotations

from datetime import datetime

from app.domain.notices import NO_REVIEWER, PULL_CLOSED
from app.domain.render_pull import replace_section
from app.domain.sanitize import escape_markdown
from app.domain.states import SpecState
from app.domain.view import Outcome
from app.observability.crashpoints import crashpoint
from worker.flow.merged import end_merged
from worker.step import Step
from worker.tell import tell_check


async def run(step: Step) -> datetime:
    spec, github = step.spec, step.parts.github
    number = spec.pull_number or 0
    pull = await github.fetch_pull(step.repo, number)
    if pull.merged:
        return await end_merged(step)
    if pull.state == "closed":
        return await step.end(SpecState.CANCELLED, Outcome.CANCELLED, PULL_CLOSED)
    if spec.outcome != Outcome.DONE:
        await step.save(outcome=Outcome.DONE.value, outcome_detail=None)
    body = replace_section(pull.body, step.view)
    if body != pull.body:
        crashpoint("body.before")
        await github.ensure_pull_body(step.repo, number, body)
        crashpoint("body.after")
    if spec.state is not SpecState.IN_REVIEW:
        await step.save(state=SpecState.IN_REVIEW)
    await tell_check(step)
    if spec.review_asked_at is None:  # after that a draft is a person's wish
        crashpoint("ready.before")
        await github.ensure_pull_ready(step.repo, pull)
        crashpoint("ready.after")
    if spec.review_asked_at is None:
        crashpoint("review_request.before")
        asked = await github.ensure_review_requested(step.repo, number, spec.labeler_login)
        crashpoint("review_request.after")
        if not asked:
            await step.add_note(NO_REVIEWER.format(login=escape_markdown(spec.labeler_login)))
        await step.save(review_asked_at=step.now())
    await step.save(pull_ready_at=step.now())
    return step.again()
