"""Turns facts into effects: claim a spec, run the one step it needs, commit, release. The only caller of steps.

Lease and fence: two workers never both write to the database. Version: what arrives while a step runs makes the spec
due again, so no wake-up is lost. Every failure ends in a stored time to try again or in a told outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

import structlog
from sqlalchemy.exc import DBAPIError

from app.db.specs import RENEW_EVERY_S, Claim, claim_spec, release_spec, renew_lease
from app.domain.errors import Denied, Fenced, Gone, OutsideError, Refused, RetryAt, Unexpected
from app.domain.notices import CANCEL_TEXTS, DENIED, INTERNAL
from app.domain.states import SPEC_LIVE, SpecState
from app.domain.steps import StepName, decide_step
from app.domain.view import Outcome
from worker.crashpoints import crashpoint
from worker.flow import admit, branch, cancel, collect, conclude, provision, publish, pull, review, watch
from worker.parts import Parts
from worker.step import SLOW, Step
from worker.tell import tell_status

log = structlog.get_logger("worker.engine")

StepFunction = Callable[[Step], Awaitable[datetime]]

STEPS: Mapping[StepName, StepFunction] = {
    StepName.ADMIT: admit.run,
    StepName.BRANCH: branch.run,
    StepName.PULL: pull.run,
    StepName.PROVISION: provision.run,
    StepName.WATCH: watch.run,
    StepName.COLLECT: collect.run,
    StepName.PUBLISH: publish.run,
    StepName.REVIEW: review.run,
    StepName.CANCEL: cancel.run,
    StepName.CONCLUDE: conclude.run,
}

STEP_LIMIT_S = 55
MAX_STEPS_A_CALL = 25
MAX_FAILURES = 8
BACKOFF_S = (1, 2, 5, 10, 20, 40, 60)


class Engine:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def advance(self, spec_id: str) -> int:
        """Run steps of one spec until it has to wait. Returns how many ran; 0 when someone else holds it or nothing is
        to do. Safe to call at any time, any number of times, from any number of processes.
        """
        for count in range(MAX_STEPS_A_CALL):
            claim = await self._claim(spec_id)
            if claim is None:
                return count
            with structlog.contextvars.bound_contextvars(
                spec_id=spec_id, repo_id=claim.spec.repo_id, issue=claim.spec.issue_number
            ):
                async with self._renewing(claim):
                    due_at, failures = await self._run(claim)
                if due_at is None:
                    return count
                await self._release(claim, due_at, failures)
        return MAX_STEPS_A_CALL

    async def _claim(self, spec_id: str) -> Claim | None:
        async with self._parts.db.write() as session:
            return await claim_spec(session, spec_id, self._parts.worker_id, self._parts.clock())

    async def _release(self, claim: Claim, due_at: datetime, failures: int) -> None:
        crashpoint("release.before")
        async with self._parts.db.write() as session:
            await release_spec(session, claim, due_at, failures, self._parts.clock())
        crashpoint("release.after")

    async def _run(self, claim: Claim) -> tuple[datetime | None, int]:
        """One step; (when to look again, failures in a row). None = fenced off: another worker goes on."""
        name: StepName | None = None
        step: Step | None = None
        try:
            step = await Step.load(self._parts, claim)
            name = decide_step(step.facts)
            if name is None:
                return self._parts.clock() + SLOW, 0
            async with asyncio.timeout(STEP_LIMIT_S):
                crashpoint(f"{name}.before")
                due_at = await STEPS[name](step)
                crashpoint(f"{name}.after")
                log.info(
                    "step.ended", step=name, due_in_s=round((due_at - self._parts.clock()).total_seconds(), 1)
                )
                edit_at = await _tell(step)
            return (min(due_at, edit_at) if edit_at else due_at), 0
        except Fenced as reason:
            log.info("step.fenced", step=name, reason=str(reason))
            return None, 0
        except RetryAt as later:
            log.info("step.deferred", step=name, reason=str(later), at=later.at.isoformat())
            return max(later.at, self._parts.clock() + timedelta(seconds=0.2)), claim.spec.failures
        except (Gone, Denied, Refused) as error:
            log.warning("step.refused", step=name, error=str(error), kind=type(error).__name__)
            return await self._end_refused(step, claim, error)
        except Exception as error:
            log.exception("step.failed", step=name, failures=claim.spec.failures + 1)
            return await self._count_failure(step, claim, name, error)

    async def _end_refused(
        self, step: Step | None, claim: Claim, error: Gone | Denied | Refused
    ) -> tuple[datetime | None, int]:
        if step is None or step.spec.state not in SPEC_LIVE:
            # Nothing more can be written there; the conclude step records that and lets go.
            return self._parts.clock() + timedelta(minutes=5), claim.spec.failures + 1
        try:
            if isinstance(error, Gone) or (
                isinstance(error, Denied) and error.reason in {"suspended", "blocked"}
            ):
                due = await step.end(SpecState.CANCELLED, Outcome.CANCELLED, CANCEL_TEXTS["access_lost"])
            else:
                due = await step.end(SpecState.FAILED, Outcome.FAILED, DENIED.format(message=error))
        except Fenced:
            return None, 0
        return due, 0

    async def _count_failure(
        self, step: Step | None, claim: Claim, name: StepName | None, error: Exception
    ) -> tuple[datetime | None, int]:
        failures = claim.spec.failures + 1
        wait_s = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1]
        outside = isinstance(error, OutsideError | DBAPIError | TimeoutError) and not isinstance(
            error, Unexpected
        )
        if failures >= MAX_FAILURES and not outside and step is not None and step.spec.state in SPEC_LIVE:
            with suppress(Fenced):
                what = f"step {name}: {type(error).__name__}"
                due = await step.end(
                    SpecState.FAILED, Outcome.FAILED, INTERNAL.format(times=failures, what=what)
                )
                return due, 0
        return self._parts.clock() + timedelta(seconds=wait_s), failures

    @asynccontextmanager
    async def _renewing(self, claim: Claim) -> AsyncIterator[None]:
        """Keep the lease while the step runs. A lost lease shows at the next guarded write."""
        task = asyncio.create_task(self._renew(claim))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _renew(self, claim: Claim) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            crashpoint("lease.before")
            try:
                async with self._parts.db.write() as session:
                    if not await renew_lease(session, claim.spec.id, claim.fence, self._parts.clock()):
                        return
            except DBAPIError as error:
                log.warning("lease.not_renewed", error=type(error).__name__)
            crashpoint("lease.after")


async def _tell(step: Step) -> datetime | None:
    """The status comment after a step. Its troubles never undo the step: they are tried again."""
    if step.spec.state not in SPEC_LIVE:
        return None  # the conclude step tells
    try:
        return await tell_status(step)
    except RetryAt as later:
        return later.at
    except (Gone, Denied, Refused) as error:
        log.warning("status.not_written", error=str(error))
        return None
