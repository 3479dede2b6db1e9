"""What people see while a spec goes on: one status comment, one check run per head. Coalesced; the end always told."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from app.db.checks import list_checks, record_check, set_check
from app.db.models import CheckRun
from app.domain.ids import IssueNumber
from app.domain.markers import status_marker
from app.domain.ports import CheckOutput
from app.domain.render import render_check, render_status, render_superseded
from app.domain.states import SPEC_LIVE
from worker.crashpoints import crashpoint
from worker.step import Step

EDIT_GAP = timedelta(seconds=8)
"""Progress edits of one spec are at least this far apart (GitHub's secondary limits count edits as content)."""


async def tell_status(step: Step) -> datetime | None:
    """Bring the status comment up to date. Returns when to come back when an edit had to wait, else None.

    Raises what the GitHub port raises.
    """
    spec = step.spec
    body = render_status(step.view)
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
    if digest == spec.status_body_sha:
        return None
    urgent = spec.state not in SPEC_LIVE or spec.outcome is not None
    if spec.status_written_at is not None and not urgent:
        free_at = spec.status_written_at + EDIT_GAP
        if free_at > step.now():
            return free_at
    crashpoint("status.before")
    comment = await step.parts.github.ensure_comment(
        step.repo,
        IssueNumber(spec.issue_number),
        status_marker(spec.id),
        body,
        known_id=spec.status_comment_id,
    )
    crashpoint("status.after")
    await step.save(
        status_comment_id=comment.comment_id,
        status_comment_url=comment.html_url or None,
        status_body_sha=digest,
        status_written_at=step.now(),
    )
    return None


async def tell_check(step: Step) -> None:
    """Bring the check run of the newest head up to date and end those of older heads."""
    spec = step.spec
    if spec.head_sha is None or spec.pull_number is None:
        return
    details = spec.status_comment_url or spec.pull_url or ""
    async with step.parts.db.read() as session:
        rows = await list_checks(session, spec.id)
    await _write_check(step, spec.head_sha, render_check(step.view, details), rows)
    for row in rows:
        if row.head_sha != spec.head_sha and row.conclusion is None:
            await _write_check(step, row.head_sha, render_superseded(row.head_sha, details), rows)


async def _write_check(step: Step, head_sha: str, output: CheckOutput, rows: list[CheckRun]) -> None:
    digest = hashlib.sha256(repr(output).encode()).hexdigest()
    row = next((one for one in rows if one.head_sha == head_sha), None)
    if row is not None and row.output_sha == digest:
        return
    if (
        row is not None
        and row.check_run_id is not None
        and row.conclusion is None
        and output.conclusion is None
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
