"""Turns of the agent until it comes to rest, each one's work saved before it counts as done."""

from __future__ import annotations

import asyncio
import uuid

from claude_agent_sdk import ClaudeSDKError

from sandbox_payload.agent import Agent, Gone
from sandbox_payload.git import GitFailed
from sandbox_payload.handover import AppAway, Handover
from sandbox_payload.inputs import Inputs
from sandbox_payload.outcome import COMPLETED, Outcome, judge_gone, judge_result
from sandbox_payload.progress import Progress, record_progress
from sandbox_payload.reports import Report
from sandbox_payload.steering import Steering
from sandbox_payload.wire import EventType

SETTLE_S = 0.4
"""How long nothing must happen after a turn before it counts as the end (a follow-up starts within 0.05 s)."""
WAKE_S = 3.0
"""The same after a background task ended, whose end starts another turn."""
RESEND_AFTER_S = 3.0


class Turns:
    def __init__(
        self, inputs: Inputs, agent: Agent, steering: Steering, handover: Handover, report: Report
    ) -> None:
        self._inputs = inputs
        self._agent = agent
        self._steering = steering
        self._handover = handover
        self._report = report

    @property
    def messages_given(self) -> int:
        """How many messages of people or of the app the model has been given so far."""
        return self._steering.given_count

    async def run(self, prompt: str | None, deadline: float) -> Outcome:
        """Says `prompt` (None: a message is about to start a turn); what the last turn before rest means.

        `deadline` is time.monotonic(). Raises LinkError, and TimeoutError when the app is away until then.
        """
        if prompt is not None:
            try:
                await self._agent.say(prompt, str(uuid.uuid4()))
            except ClaudeSDKError as error:
                return judge_gone(Gone(None, str(error)))
        while True:
            end = await self._agent.ends.get()
            if isinstance(end, Gone):
                return judge_gone(end)
            activity = self._agent.activity
            progress = Progress(activity.session_id, activity.round, cost_before_usd=activity.cost_before_usd)
            record_progress(self._inputs.state, progress)
            await self._checkpoint(deadline)
            outcome = judge_result(end.result, activity.last_text)
            if end.interrupted:
                outcome = COMPLETED  # we stopped that turn ourselves; what follows it decides
            elif outcome.status != "completed" and not self._steering.outstanding:
                return outcome
            if await self._comes_to_rest():
                return outcome

    async def _comes_to_rest(self) -> bool:
        """True when nothing runs, in the background either, and nothing is to come; False when a turn has ended."""
        activity = self._agent.activity
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
