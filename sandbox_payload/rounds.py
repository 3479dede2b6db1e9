"""The rounds of one sandbox: work until it comes to rest, hand over, wait for messages, work again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from sandbox_payload.activity import Activity
from sandbox_payload.agent import Agent
from sandbox_payload.command import run_command
from sandbox_payload.git import GitFailed
from sandbox_payload.handover import AppAway, Handover
from sandbox_payload.inputs import Inputs
from sandbox_payload.link import LinkError
from sandbox_payload.outcome import TIME_LIMIT, Outcome
from sandbox_payload.processes import end_descendants
from sandbox_payload.progress import Progress, record_progress
from sandbox_payload.reports import Report
from sandbox_payload.session import Opening
from sandbox_payload.steering import Steering
from sandbox_payload.wire import CommandReport, EventType, ExitCode

APP_AWAY_LIMIT_S = 900.0
KEEP_PAUSES = 20.0
"""What takes long, as with a large session, takes at most a twentieth of the time."""
COMMAND_LIMIT_S = 900.0

Work = Callable[[str | None, float], Awaitable[Outcome]]
"""What fills a round: what to say first (None: a message has been said), until which time.monotonic()."""


class Rounds:
    def __init__(
        self,
        inputs: Inputs,
        agent: Agent,
        steering: Steering,
        handover: Handover,
        report: Report,
    ) -> None:
        self._inputs = inputs
        self._agent = agent
        self._steering = steering
        self._handover = handover
        self._report = report
        self.in_round = False
        """Whether there is work that no manifest covers yet."""

    @property
    def _activity(self) -> Activity:
        return self._agent.activity

    async def run(self, opening: Opening, work: Work) -> ExitCode:
        """Everything from the first prompt to the end of the last idle time. Raises AppAway, LinkError."""
        if opening.prompt is not None:
            outcome = await self._round(opening.prompt, work)
            if outcome.status != "completed":
                return outcome.exit_code
        while await self._wait_for_more():
            self._activity.round += 1
            outcome = await self._round(None, work)
            if outcome.status != "completed":
                return outcome.exit_code
        return ExitCode.OK

    async def _round(self, prompt: str | None, work: Work) -> Outcome:
        self.in_round = True
        limit_s = self._inputs.brief.task_timeout_s
        deadline = time.monotonic() + limit_s
        test: CommandReport | None = None
        keeping = asyncio.create_task(self._keep_while_working(), name="keeping")
        try:
            async with asyncio.timeout(limit_s):
                outcome = await work(prompt, deadline)
                test = await self._test(outcome, deadline)
        except TimeoutError:
            outcome = self._time_limit()
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
        if outcome.status != "completed":
            await self._agent.halt()
            await asyncio.to_thread(end_descendants)
            await self._agent.close()
        await self._handover.finish(outcome, test, time.monotonic() + APP_AWAY_LIMIT_S)
        self.in_round = False
        self._tell_end(outcome, test)
        return outcome

    async def _keep_while_working(self) -> None:
        """A sandbox that vanishes loses at most `keep_s`. What fails, an app that is away for so long too, is tried again
        then: the end of a turn tells it.

        The first time comes early, for the many rounds that are short.
        """
        every_s = self._inputs.brief.keep_s
        pause_s = every_s / 4
        while True:
            await asyncio.sleep(pause_s)
            began = time.monotonic()
            with suppress(GitFailed, AppAway, LinkError):
                await self._handover.keep(began + every_s)
            pause_s = max(every_s, KEEP_PAUSES * (time.monotonic() - began))

    async def _test(self, outcome: Outcome, deadline: float) -> CommandReport | None:
        """The repository's test command says whether the work holds; its verdict is told, not turned into failure."""
        command = self._inputs.brief.test_command
        if not command or outcome.status != "completed" or self._inputs.brief.plans:
            return None
        limit_s = max(1.0, min(COMMAND_LIMIT_S, deadline - time.monotonic() - 1))
        with self._activity.commanding("test command"):
            done = await run_command(command, self._inputs.workspace, limit_s)
        self._report(EventType.SYSTEM_MESSAGE, {"subtype": "test_command", **done.model_dump()})
        return done

    def _time_limit(self) -> Outcome:
        running = ", ".join(self._activity.background.values())
        if not running:
            return TIME_LIMIT
        detail = f"{TIME_LIMIT.detail} Still running in the background: {running[:1_000]}"
        return Outcome(TIME_LIMIT.status, TIME_LIMIT.reason, detail, TIME_LIMIT.exit_code)

    def _tell_end(self, outcome: Outcome, test: CommandReport | None) -> None:
        activity = self._activity
        done = Progress(activity.session_id, activity.round, True, activity.cost_before_usd)
        record_progress(self._inputs.state, done)
        told = {
            "round": activity.round,
            "reason": outcome.reason,
            "detail": outcome.detail,
            "summary": activity.last_text,
            "session_id": activity.session_id,
            "turns": activity.turns_of_model,
            "cost_usd": activity.cost_usd,
            "test_exit_code": test.exit_code if test else None,
        }
        self._report(EventType.COMPLETED if outcome.status == "completed" else EventType.FAILED, told)

    async def _wait_for_more(self) -> bool:
        """Whether the agent was given something new to do within the idle time."""
        idle_s = self._inputs.brief.idle_s
        deadline = time.monotonic() + idle_s
        if self._nothing_to_do():
            self._report(EventType.WAITING, {"idle_s": idle_s, "round": self._activity.round})
        while self._nothing_to_do():
            if time.monotonic() >= deadline or self._agent.gone:
                return False
            await asyncio.sleep(0.1)
        return not self._agent.gone

    def _nothing_to_do(self) -> bool:
        return self._activity.at_rest and not self._steering.outstanding and self._agent.ends.empty()
