"""Planning: asks the agent for one phase after the other, until each has an output that passes."""

from __future__ import annotations

import asyncio

from sandbox_payload.outcome import COMPLETED, Outcome
from sandbox_payload.reports import Report
from sandbox_payload.submissions import Submissions, full_name, listed
from sandbox_payload.turns import Turns
from sandbox_payload.wire import EventType, ExitCode
from sandbox_payload.wire.plan import MAX_PHASE_ATTEMPTS, Finding, PhaseName

_NOTICE = "[Notice from Issuewright itself, not from a person:]\n"
_NOT_HANDED_IN = (
    _NOTICE
    + "The phase {phase} is not done: nothing you handed in was accepted. Only a call of the tool {tool} counts; "
    "text is not read.{why} Call it now with the whole output."
)
_NO_LONGER_FITS = (
    _NOTICE + "The output of the phase {phase} no longer fits the others:\n{why}\n"
    "Hand it in again with the tool {tool}, whole."
)


class Planning:
    """`work` fills a round of a planning sandbox as `Turns.run` does that of a task."""

    def __init__(self, turns: Turns, submissions: Submissions, report: Report) -> None:
        self._turns = turns
        self._submissions = submissions
        self._report = report

    async def work(self, prompt: str | None, deadline: float) -> Outcome:
        """Says `prompt` together with the first phase that is due; ends when no phase is due any more."""
        submissions = self._submissions
        due = submissions.due()
        if due is None or submissions.is_handed_in(due):
            # All phases have their outputs: it is about a message, or about what to do with a plan that is there.
            outcome = await self._talk(prompt, deadline)
            if outcome is not None:
                return outcome
            prompt = None
        while (due := submissions.due()) is not None:
            outcome = await self._phase(due, prompt, deadline)
            if outcome is not None:
                return outcome
            prompt = None
        submissions.settle()
        return COMPLETED

    async def _phase(self, phase: PhaseName, prompt: str | None, deadline: float) -> Outcome | None:
        """Asks until the phase is done; what ended the round, if something did."""
        submissions = self._submissions
        submissions.start(phase)
        text = self._request(phase)
        if prompt is not None:
            text = f"{prompt}\n\n{text}"
        while True:
            given = self._turns.messages_given
            outcome = await self._talk(text, deadline)
            if outcome is not None or submissions.due() != phase:
                return outcome
            if self._turns.messages_given == given:  # a person's words are answered before the phase goes on
                submissions.note_missing(phase)
            text = self._reminder(phase)

    async def _talk(self, text: str | None, deadline: float) -> Outcome | None:
        """Lets the agent work until it rests; what ended the round, if something did."""
        if (failure := self._submissions.failure()) is not None:
            return self._failed(*failure)
        talking = asyncio.create_task(self._turns.run(text, deadline), name="talking")
        exhausted = asyncio.create_task(self._submissions.exhausted.wait(), name="exhausted")
        try:
            await asyncio.wait({talking, exhausted}, return_when=asyncio.FIRST_COMPLETED)
            if (failure := self._submissions.failure()) is not None:
                return self._failed(*failure)
            outcome = talking.result()
        finally:
            for task in (talking, exhausted):
                task.cancel()
            await asyncio.gather(talking, exhausted, return_exceptions=True)
        # A phase is done by the tool; the turn may end without a word.
        return None if outcome.status == "completed" or outcome.reason == "empty_answer" else outcome

    def _request(self, phase: PhaseName) -> str:
        if not self._submissions.is_handed_in(phase):
            return self._submissions.orders[phase].instructions
        why = listed(self._submissions.misfits().get(phase, []))
        return _NO_LONGER_FITS.format(phase=phase, tool=full_name(phase), why=why)

    def _reminder(self, phase: PhaseName) -> str:
        findings = [
            found for found in self._submissions.last_findings(phase) if found.rule != "not_handed_in"
        ]
        why = f" The last one was refused:\n{listed(findings)}\n" if findings else ""
        return _NOT_HANDED_IN.format(phase=phase, tool=full_name(phase), why=why)

    def _failed(self, phase: PhaseName, findings: list[Finding]) -> Outcome:
        told = [finding.model_dump() for finding in findings]
        self._report(
            EventType.PHASE_FAILED, {"phase": phase, "attempts": MAX_PHASE_ATTEMPTS, "findings": told}
        )
        detail = f"The phase {phase} did not pass after {MAX_PHASE_ATTEMPTS} attempts:\n{listed(findings)}"
        return Outcome("failed", "phase_failed", detail[:4_000], ExitCode.AGENT_FAILED)
