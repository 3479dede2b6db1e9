"""What people see while a spec goes on: one status comment, one check run per head. Coalesced; the end always told.

Where GitHub does not let us write one of them, the other says so, and it is tried again when access comes back.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from app.db.checks import list_checks, record_check, set_check
from app.db.models import CheckRun
from app.db.pace import writing
from app.db.writes import get_pressure
from app.domain.errors import Denied, Gone, Refused, refuses_credentials
from app.domain.ids import IssueNumber
from app.domain.markers import status_marker
from app.domain.pace import EditKind, Urgency, decide_edit_wait
from app.domain.ports import CheckOutput
from app.domain.render import render_check, render_status, render_superseded
from app.domain.render_pull import replace_section
from app.domain.states import SPEC_LIVE, SpecState
from app.domain.view import Outcome, without_counters
from app.observability.crashpoints import crashpoint
from worker.step import Step

log = structlog.get_logger("worker.tell")

REFUSED_GAP = timedelta(minutes=10)
"""How long a status comment that GitHub refused is left alone while the work goes on."""


async def tell_status(step: Step) -> datetime | None:
    """Bring the status comment up to date. Returns when to come back when that had to wait, else None.

    A refusal is recorded in `status_untold`. Raises RetryAt.
    """
    spec = step.spec
    body = render_status(step.view)
    digest, state = _digest(body), _digest(render_status(without_counters(step.view)))
    if digest == spec.status_body_sha:
        return None
    ended = spec.state not in SPEC_LIVE
    if spec.status_refused_at is not None and not ended and step.now() - spec.status_refused_at < REFUSED_GAP:
        return spec.status_refused_at + REFUSED_GAP
    urgency = Urgency.FINAL if ended or spec.outcome is not None else Urgency.PROGRESS
    asks = spec.state is SpecState.AWAITING_APPROVAL and state != spec.status_state_sha
    if spec.status_written_at is None or asks:
        urgency = max(urgency, Urgency.WORK)  # somebody waits for it: whoever set the label, or we for a yes
    if urgency is Urgency.PROGRESS:
        wait = await _edit_wait(step, EditKind.COUNTERS if state == spec.status_state_sha else EditKind.STATE)
        if wait:
            return step.now() + wait
    crashpoint("status.before")
    try:
        with writing(urgency):
            comment = await step.parts.github.ensure_comment(
                step.repo,
                IssueNumber(spec.issue_number),
                status_marker(spec.id),
                body,
                known_id=spec.status_comment_id,
            )
    except (Gone, Denied, Refused) as refused:
        _unless_credentials(refused)
        await step.save(status_untold=str(refused), status_refused_at=step.now())
        return None
    crashpoint("status.after")
    await step.save(
        status_comment_id=comment.comment_id,
        status_comment_url=comment.html_url or None,
        status_body_sha=digest,
        status_state_sha=state,
        status_written_at=step.now(),
        status_untold=None,
        status_refused_at=None,
    )
    return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _unless_credentials(refused: Gone | Denied | Refused) -> None:
    """A key or token that GitHub does not take says nothing about this one comment or check run."""
    if refuses_credentials(refused):
        raise refused


async def _edit_wait(step: Step, kind: EditKind) -> timedelta:
    """How long an edit that the next one replaces has to wait, by what else goes on in the installation."""
    if step.spec.status_written_at is None:
        return timedelta(0)
    async with step.parts.db.read() as session:
        pressure = await get_pressure(session, step.spec.installation_id, step.now())
    return decide_edit_wait(pressure, kind, step.now() - step.spec.status_written_at)


async def open_check(step: Step) -> None:
    """See that the newest head has its check run while the spec lives: an earlier step may have been cut or put off
    before it was made, a lost sandbox's work may have moved the head, a person may have asked for a retry.
    """
    spec = step.spec
    if spec.pull_number is None or spec.check_untold is not None:
        return
    async with step.parts.db.read() as session:
        rows = await list_checks(session, spec.id)
    row = next((one for one in rows if one.head_sha == spec.head_sha), None)
    at_work = spec.state is SpecState.IMPLEMENTING
    if row is None or row.check_run_id is None:
        failed = any(one.conclusion not in {None, "success", "neutral"} for one in rows)
        turned = spec.state is SpecState.PAUSED or (at_work and failed)
    else:
        turned = (at_work and row.conclusion not in {None, "success"}) or _pause_untold(step, row)
        if not turned:
            return
    if turned:
        await tell_body(step)  # first: the check run is what tells that this is to be done
    await tell_check(step)


def _pause_untold(step: Step, row: CheckRun) -> bool:
    """Whether an open check run says paused while it is not, or the other way round."""
    details = step.spec.status_comment_url or step.spec.pull_url or ""
    paused = _output_digest(render_check(replace(step.view, state=SpecState.PAUSED, outcome=None), details))
    return row.conclusion is None and (row.output_sha == paused) is not (step.spec.state is SpecState.PAUSED)


def _output_digest(output: CheckOutput) -> str:
    return hashlib.sha256(repr(output).encode()).hexdigest()


async def tell_body(step: Step) -> None:
    """A pull request that is open, or that we have closed, says in our section whether the work goes on. One that is ready
    says what was done: that is written with it.
    """
    spec, github = step.spec, step.parts.github
    is_ours = spec.pull_state == ("closed" if spec.outcome == Outcome.NO_CHANGES else "open")
    if spec.pull_number is None or spec.outcome == Outcome.DONE or not is_ours:
        return
    try:
        pull = await github.fetch_pull(step.repo, spec.pull_number)
        body = replace_section(pull.body, step.view)
        if pull.state == spec.pull_state and body != pull.body:
            crashpoint("body.before")
            await github.ensure_pull_body(step.repo, spec.pull_number, body)
            crashpoint("body.after")
    except (Gone, Denied, Refused) as error:
        log.warning("body.not_told", error=str(error))


async def tell_check(step: Step) -> None:
    """Bring the check run of the newest head up to date and end those of older heads.

    A refusal is recorded in `check_untold`. Raises RetryAt.
    """
    spec = step.spec
    if spec.head_sha is None or spec.pull_number is None:
        return
    details = spec.status_comment_url or spec.pull_url or ""
    async with step.parts.db.read() as session:
        rows = await list_checks(session, spec.id)
    try:
        await _write_check(step, spec.head_sha, render_check(step.view, details), rows)
        for row in rows:
            if row.head_sha != spec.head_sha and row.conclusion is None:
                await _write_check(step, row.head_sha, render_superseded(row.head_sha, details), rows)
    except (Gone, Denied, Refused) as refused:
        _unless_credentials(refused)
        await step.save(check_untold=str(refused))
        return
    if spec.check_untold is not None:
        await step.save(check_untold=None)


async def _write_check(step: Step, head_sha: str, output: CheckOutput, rows: list[CheckRun]) -> None:
    digest = _output_digest(output)
    row = next((one for one in rows if one.head_sha == head_sha), None)
    if row is not None and row.output_sha == digest:
        return
    if (
        row is not None
        and row.check_run_id is not None
        and row.conclusion is None
        and output.conclusion is None
        and not _pause_untold(step, row)
    ):
        return  # in progress here and there: progress is the status comment's business
    if row is not None and row.conclusion == "success" != output.conclusion:
        return  # the work on this head did succeed, whatever becomes of the pull request
    if row is None:
        async with step.saving() as session:
            await record_check(session, step.spec.id, head_sha, step.now())
    crashpoint("check.before")
    run = await step.parts.github.ensure_check_run(
        step.repo, head_sha, step.spec.id, output, known_id=row.check_run_id if row else None
    )
    crashpoint("check.after")
    async with step.saving() as session:
        await set_check(
            session, (step.spec.id, head_sha), check_run_id=run.check_run_id, conclusion=output.conclusion,
            output_sha=digest, now=step.now(),
        )  # fmt: skip
