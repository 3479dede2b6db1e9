"""The rounds of one sandbox: work until it comes to rest, hand over, wait for messages, work again."""

from __future__ import annotations

import asyncio
import time
import uuid

from claude_agent_sdk import ClaudeSDKError

from sandbox_payload.activity import Activity
from sandbox_payload.agent import Agent, Gone
from sandbox_payload.command import run_command
from sandbox_payload.git import GitFailed
from sandbox_payload.handover import AppAway, Handover
from sandbox_payload.inputs import Inputs
from sandbox_payload.outcome import COMPLETED, TIME_LIMIT, Outcome, judge_gone, judge_result
from sandbox_payload.processes import end_descendants
from sandbox_payload.progress import Progress, record_progress
from sandbox_payload.reports import Report
from sandbox_payload.session import Opening
from sandbox_payload.steering import Steering
from sandbox_payload.wire import CommandReport, EventType, ExitCode

SETTLE_S = 0.4
"""How long nothing must happen after a turn before it counts as the end (a follow-up starts within 0.05 s)."""
WAKE_S = 3.0
"""The same after a background task ended, whose end starts another turn."""
RESEND_AFTER_S = 3.0
APP_AWAY_LIMIT_S = 900.0
COMMAND_LIMIT_S = 900.0


class Rounds:
    def __init__(
        self, inputs: Inputs, agent: Agent, steering: Steering, handover: Handover, report: Report
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

    async def run(self, opening: Opening) -> ExitCode:
        """Everything from the first prompt to the end of the last idle time. Raises AppAway, LinkError."""
        if opening.prompt is not None:
            outcome = await self._round(opening.prompt)
            if outcome.status != "completed":
                return outcome.exit_code
        while await self._wait_for_more():
            self._activity.round += 1
            outcome = await self._round(None)
            if outcome.status != "completed":
                return outcome.exit_code
        return ExitCode.OK

    async def _round(self, prompt: str | None) -> Outcome:
        self.in_round = True
        limit_s = self._inputs.brief.task_timeout_s
        deadline = time.monotonic() + limit_s
        test: CommandReport | None = None
        try:
            async with asyncio.timeout(limit_s):
                outcome = await self._work(prompt, deadline)
                test = await self._test(outcome, deadline)
        except TimeoutError:
            outcome = self._time_limit()
        if outcome.status != "completed":
            await self._agent.halt()
            await asyncio.to_thread(end_descendants)
            await self._agent.close()
        await self._handover.finish(outcome, test, time.monotonic() + APP_AWAY_LIMIT_S)
        self.in_round = False
        self._tell_end(outcome, test)
        return outcome

    async def _work(self, prompt: str | None, deadline: float) -> Outcome:
        """Turns until the agent is at rest; what the last of them means."""
        if prompt is not None:
            try:
                await self._agent.say(prompt, str(uuid.uuid4()))
            except ClaudeSDKError as error:
                return judge_gone(Gone(None, str(error)))
        while True:
            end = await self._agent.ends.get()
            if isinstance(end, Gone):
                return judge_gone(end)
            self._note_progress(done=False)
            await self._checkpoint(deadline)
            outcome = judge_result(end.result, self._activity.last_text)
            if end.interrupted:
                outcome = COMPLETED  # we stopped that turn ourselves; what follows it decides
            elif outcome.status != "completed" and not self._steering.outstanding:
                return outcome
            if await self._comes_to_rest():
                return outcome

    async def _comes_to_rest(self) -> bool:
        """True when nothing runs, in the background either, and nothing is to come; False when a turn has ended."""
        activity = self._activity
        while self._agent.ends.empty():
            if self._steering.outstanding:
                if not activity.busy:
                    await self._steering.repeat_unconfirmed(RESEND_AFTER_S)
            elif activity.at_rest and activity.unchanged_s >= (
                WAKE_S if activity.wake_expected else SETTLE_S
            ):
                return True
            await asyncio.sleep(0.05)
        return False

    async def _checkpoint(self, deadline: float) -> None:
        """The app has the work before the turn counts as done. A repository that can't be read is reported."""
        try:
            await self._handover.checkpoint(deadline)
        except GitFailed as error:
            self._report(EventType.ERROR, {"reason": "checkpoint_failed", "detail": str(error)})
        except AppAway as error:
            raise TimeoutError from error

    async def _test(self, outcome: Outcome, deadline: float) -> CommandReport | None:
        """The repository's test command says whether the work holds; its verdict is told, not turned into failure."""
        command = self._inputs.brief.test_command
        if not command or outcome.status != "completed":
            return None
        limit_s = max(1.0, min(COMMAND_LIMIT_S, deadline - time.monotonic() - 1))
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
        self._note_progress(done=True)
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

    def _note_progress(self, *, done: bool) -> None:
        progress = Progress(self._activity.session_id, self._activity.round, done)
        record_progress(self._inputs.state, progress)

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
