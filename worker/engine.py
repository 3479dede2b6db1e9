"""Turns facts into effects: claim a spec, run the one step it needs, commit, release. The only caller of steps.

Lease and fence: two workers never both write to the database. Version: what arrives while a step runs makes the spec
due again, so no wake-up is lost. Every failure ends in a stored time to try again or in a told outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from sqlalchemy.exc import DBAPIError, SQLAlchemyError, TimeoutError as PoolTimeoutError

from app.db.pace import writing
from app.db.specs import Claim, claim_spec, release_spec, renew_lease
from app.domain.errors import (
    Denied,
    Fenced,
    Gone,
    OutsideError,
    Refused,
    RetryAt,
    Unexpected,
    refuses_credentials,
)
from app.domain.notices import CANCEL_TEXTS, DENIED, INTERNAL
from app.domain.pace import Urgency
from app.domain.states import SPEC_LIVE, SpecState
from app.domain.steps import StepName, decide_step
from app.domain.supply import Queued, Shortage
from app.domain.view import Outcome
from app.observability.crashpoints import crashpoint
from worker.flow import (
    admit,
    adopt,
    approve,
    branch,
    cancel,
    collect,
    conclude,
    follow,
    pause,
    plan,
    provision,
    publish,
    pull,
    resume,
    review,
    show,
    watch,
)
from worker.flow.attempt import note_wait
from worker.parts import Parts
from worker.pauses import Waits, come_back_at
from worker.step import SLOW, Step
from worker.tell import open_check, tell_status

log = structlog.get_logger("worker.engine")

StepFunction = Callable[[Step], Awaitable[datetime]]

STEPS: Mapping[StepName, StepFunction] = {
    StepName.ADMIT: admit.run,
    StepName.PLAN: plan.run,
    StepName.SHOW: show.run,
    StepName.APPROVE: approve.run,
    StepName.BRANCH: branch.run,
    StepName.PULL: pull.run,
    StepName.PROVISION: provision.run,
    StepName.WATCH: watch.run,
    StepName.COLLECT: collect.run,
    StepName.PUBLISH: publish.run,
    StepName.REVIEW: review.run,
    StepName.FOLLOW: follow.run,
    StepName.ADOPT: adopt.run,
    StepName.PAUSE: pause.run,
    StepName.RESUME: resume.run,
    StepName.CANCEL: cancel.run,
    StepName.CONCLUDE: conclude.run,
}

FINAL_STEPS = frozenset(
    {StepName.COLLECT, StepName.PUBLISH, StepName.REVIEW, StepName.PAUSE, StepName.CANCEL, StepName.CONCLUDE}
)
"""Their writes tell how it ended, and go before those of runs that begin."""

TELLING_MORE = frozenset({StepName.COLLECT, StepName.PUBLISH})
"""Steps whose end tells people more than what could be told right before them."""

LOOKING = frozenset({StepName.WATCH, StepName.REVIEW, StepName.PAUSE})
"""Steps about sandboxes that are there: once one has ended, nothing is waited for that kept it from ending."""
WAITED_FOR_BY_LOOKING = frozenset({Shortage.KEY, Shortage.HAND_IN, Shortage.APP})

STEP_LIMIT_S = 55
MAX_STEPS_A_CALL = 25
MAX_FAILURES = 8
BACKOFF_S = (1, 2, 5, 10, 20, 40, 60)
EDIT_RETRY_S = 3.0
ELSEWHERE_S = 1.0
"""Until the host that a spec's sandboxes are on has taken it up."""
CREDENTIALS_PAUSE = timedelta(minutes=1)
RELEASE_RETRY_S = 1.0
OUTSIDE = (OutsideError, DBAPIError, PoolTimeoutError, ConnectionError, TimeoutError)
"""Troubles of GitHub, the provider or the database, for which no number of tries ends a spec."""


@dataclass(frozen=True)
class Ended:
    """How a step ended: when to look again, failures and deferrals in a row."""

    due_at: datetime
    failures: int = 0
    deferrals: int = 0


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
                    ended = await self._run(claim)
                if ended is None:
                    return count
                await self._release(claim, ended)
        return MAX_STEPS_A_CALL

    async def _claim(self, spec_id: str) -> Claim | None:
        parts = self._parts
        crashpoint("claim.before")
        async with parts.db.write() as session:
            claim = await claim_spec(session, spec_id, parts.worker_id, parts.clock(), lease=parts.lease)
        crashpoint("claim.after")
        return claim

    async def _release(self, claim: Claim, ended: Ended) -> None:
        """Tried again while the database is away, for as long as the lease would hold everybody up otherwise. A second
        release changes nothing.
        """
        crashpoint("release.before")
        tries = max(1, int(self._parts.lease.total_seconds() / RELEASE_RETRY_S))
        for left in reversed(range(tries)):
            try:
                async with self._parts.db.write() as session:
                    await release_spec(
                        session,
                        claim,
                        ended.due_at,
                        ended.failures,
                        self._parts.clock(),
                        deferrals=ended.deferrals,
                    )
                break
            except (SQLAlchemyError, OSError) as error:
                if not left:
                    raise
                log.warning("lease.not_released", error=type(error).__name__)
            await asyncio.sleep(RELEASE_RETRY_S)
        crashpoint("release.after")

    async def _run(self, claim: Claim) -> Ended | None:
        """One step. None = fenced off: another worker goes on."""
        name: StepName | None = None
        step: Step | None = None
        try:
            step = await Step.load(self._parts, claim)
            if await step.is_elsewhere():
                return Ended(step.later(ELSEWHERE_S), claim.spec.failures, claim.spec.deferrals)
            following = decide_step(step.facts)
            if following is None:
                return Ended(self._parts.clock() + SLOW)
            name, step.focus = following.step, following.task
            async with asyncio.timeout(STEP_LIMIT_S):
                crashpoint(f"{name}.before")
                with writing(Urgency.FINAL if name in FINAL_STEPS else Urgency.WORK):
                    due_at = await STEPS[name](step)
                crashpoint(f"{name}.after")
                if name in LOOKING and step.spec.queue_reason in WAITED_FOR_BY_LOOKING:
                    async with step.saving() as session:
                        await note_wait(session, step, None)
                log.info(
                    "step.ended", step=name, due_in_s=round((due_at - self._parts.clock()).total_seconds(), 1)
                )
                edit_at = await _tell(step)
            return Ended(min(due_at, edit_at) if edit_at else due_at)
        except Fenced as reason:
            log.info("step.fenced", step=name, reason=str(reason))
            return None
        except Waits as waits:
            log.info("step.waits", step=name, reason=str(waits), at=waits.at.isoformat())
            return await self._wait(step, claim, waits.shortage, waits.at)
        except RetryAt as later:
            log.info("step.deferred", step=name, reason=str(later), at=later.at.isoformat())
            return self._put_off(claim, later)
        except (Gone, Denied, Refused) as error:
            log.warning("step.refused", step=name, error=str(error), kind=type(error).__name__)
            return await self._end_refused(step, claim, error)
        except Exception as error:
            log.exception("step.failed", step=name, failures=claim.spec.failures + 1)
            return await self._count_failure(step, claim, name, error)

    def _put_off(self, claim: Claim, later: RetryAt) -> Ended:
        """Not an attempt of the step's own: it may last as long as it lasts. A limit's end is known; for anything else
        the pauses grow.
        """
        now = self._parts.clock()
        deferrals = claim.spec.deferrals + (later.scope != "installation")
        at = come_back_at(later, deferrals, now)
        return Ended(max(at, now + timedelta(seconds=0.2)), claim.spec.failures, deferrals)

    async def _end_refused(
        self, step: Step | None, claim: Claim, error: Gone | Denied | Refused
    ) -> Ended | None:
        if isinstance(error, Denied) and error.reason == "sandbox_key":
            # The operator's to mend.
            return await self._wait(step, claim, Shortage.KEY, self._parts.clock() + CREDENTIALS_PAUSE)
        if refuses_credentials(error):
            # The operator's to mend, and nothing could be told on GitHub until then.
            return self._put_off(claim, RetryAt(str(error), self._parts.clock() + CREDENTIALS_PAUSE))
        if step is None or step.spec.state not in SPEC_LIVE:
            # Nothing more can be written there; the conclude step records that and lets go.
            return Ended(self._parts.clock() + timedelta(minutes=5), claim.spec.failures + 1)
        try:
            if isinstance(error, Gone) or (
                isinstance(error, Denied) and error.reason in {"suspended", "blocked"}
            ):
                due = await step.end(SpecState.CANCELLED, Outcome.CANCELLED, CANCEL_TEXTS["access_lost"])
            elif isinstance(error, Denied) and error.reason == "archived":
                due = await step.end(SpecState.CANCELLED, Outcome.CANCELLED, CANCEL_TEXTS["archived"])
            else:
                due = await step.end(SpecState.FAILED, Outcome.FAILED, DENIED.format(message=error))
        except Fenced:
            return None
        return Ended(due)

    async def _wait(self, step: Step | None, claim: Claim, shortage: Shortage, at: datetime) -> Ended | None:
        """People see what it waits for."""
        if step is not None and step.spec.state in SPEC_LIVE:
            try:
                async with step.saving() as session:
                    await note_wait(session, step, Queued(shortage))
                with suppress(OutsideError):
                    await _tell(step)
            except Fenced:
                return None
        return Ended(at, claim.spec.failures)

    async def _count_failure(
        self, step: Step | None, claim: Claim, name: StepName | None, error: Exception
    ) -> Ended:
        failures = claim.spec.failures + 1
        wait_s = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1]
        outside = isinstance(error, OUTSIDE) and not isinstance(error, Unexpected)
        if failures >= MAX_FAILURES and not outside and step is not None and step.spec.state in SPEC_LIVE:
            with suppress(Fenced):
                what = f"step {name}: {type(error).__name__}"
                due = await step.end(
                    SpecState.FAILED, Outcome.FAILED, INTERNAL.format(times=failures, what=what)
                )
                return Ended(due)
        return Ended(self._parts.clock() + timedelta(seconds=wait_s), failures)

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
        lease = self._parts.lease
        while True:
            await asyncio.sleep(lease.total_seconds() / 3)
            crashpoint("lease.before")
            try:
                async with self._parts.db.write() as session:
                    now = self._parts.clock()
                    if not await renew_lease(session, claim.spec.id, claim.fence, now, lease=lease):
                        return
            except (SQLAlchemyError, OSError) as error:
                log.warning("lease.not_renewed", error=type(error).__name__)
            crashpoint("lease.after")


async def _tell(step: Step) -> datetime | None:
    """Check run and status comment after a step. Their troubles never undo the step: they are tried again."""
    following = decide_step(step.facts)
    if step.spec.state not in SPEC_LIVE or (following is not None and following.step in TELLING_MORE):
        return None
    try:
        await open_check(step)
        return await tell_status(step)
    except RetryAt as later:
        # Not sooner: the next step tells too, and an edit is no reason for one.
        return max(later.at, step.later(EDIT_RETRY_S))
