"""What the agent hands in for the phases of planning: judged at once, kept, counted, reported.

An attempt is an output that the gates refuse, one that the SDK refuses before we see it (it does not fit the schema;
only the stream tells), or a turn that ends without an accepted output. After MAX_PHASE_ATTEMPTS of them the phase has
failed.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claude_agent_sdk import AssistantMessage, Message, ToolResultBlock, ToolUseBlock, UserMessage

from sandbox_payload.caps import capped
from sandbox_payload.plan_memory import PhaseRecord, read_records, write_records
from sandbox_payload.reports import Report
from sandbox_payload.wire import Brief, EventType
from sandbox_payload.wire.gates import find_faults, find_faults_of_all
from sandbox_payload.wire.plan import AGENT_PHASES, MAX_PHASE_ATTEMPTS, Finding, PhaseName, PhaseOrder

SERVER = "issuewright"
_ACCEPTED = (
    "Accepted: {phase}. End your turn now with one sentence; you will be told what comes next. If a later phase shows "
    "that this output was wrong, hand it in again, whole."
)
_NOT_YET = "Not taken: {phase} comes after {missing}, which is not handed in yet. Hand in {missing} first."
_REFUSED = (
    "Refused, attempt {attempt} of {limit}. Mend all of this and hand in {phase} again, whole:\n{findings}"
)


def tool_of(phase: PhaseName) -> str:
    """The tool's name on our server; `full_name` is what the model sees."""
    return f"submit_{phase}"


def full_name(phase: PhaseName) -> str:
    return f"mcp__{SERVER}__{tool_of(phase)}"


def listed(findings: list[Finding]) -> str:
    return "\n".join(f"- {finding}" for finding in findings)


@dataclass(frozen=True)
class Answer:
    """What the tool tells the agent."""

    text: str
    is_error: bool


class Submissions:
    """`exhausted` is set once a phase has no attempts left."""

    def __init__(self, brief: Brief, state: Path, report: Report, exists: Callable[[str], bool]) -> None:
        self.orders: dict[PhaseName, PhaseOrder] = {order.name: order for order in brief.phases}
        self.exhausted = asyncio.Event()
        self._report = report
        self._exists = exists
        self._path = state / "plan.json"
        self._records = read_records(self._path, brief.outputs)
        self._started: dict[PhaseName, float] = {}
        self._calls: dict[str, PhaseName] = {}
        self._answered: Counter[PhaseName] = Counter()
        """Failed calls that we answered ourselves, so that the stream's word of them is not counted again."""
        self._tell_untold()
        if self.failure() is not None:
            self.exhausted.set()

    def due(self) -> PhaseName | None:
        """The first phase that is not handed in, else the first that does not fit what stands before it any more."""
        for phase in self.orders:
            if self._record(phase).output is None:
                return phase
        return next((phase for phase in self.misfits() if phase in self.orders), None)

    def misfits(self) -> dict[PhaseName, list[Finding]]:
        """The gates' findings over all that is handed in, by phase."""
        return find_faults_of_all(self._outputs(), self._exists)

    def is_handed_in(self, phase: PhaseName) -> bool:
        return self._record(phase).output is not None

    def start(self, phase: PhaseName) -> None:
        """The phase is asked for from now on."""
        self._started[phase] = time.monotonic()
        self._report(EventType.PHASE_STARTED, {"phase": phase, "attempt": self._record(phase).refused + 1})

    def hand_in(self, phase: PhaseName, handed: dict[str, Any]) -> Answer:
        """Takes an output that fits its schema, or says why not."""
        missing = [name for name in self._before(phase) if not self.is_handed_in(name)]
        if missing:
            self._answered[phase] += 1
            return Answer(_NOT_YET.format(phase=phase, missing=missing[0]), is_error=True)
        if not self.is_handed_in(phase) and phase not in self._started:
            self.start(phase)
        output: dict[str, Any] = capped(handed)
        earlier = {name: kept for name, kept in self._outputs().items() if name in self._before(phase)}
        findings = find_faults(phase, output, earlier, self._exists)
        if findings:
            self._answered[phase] += 1
            self._refuse(phase, findings)
            attempt = self._record(phase).refused
            words = {"attempt": attempt, "limit": MAX_PHASE_ATTEMPTS, "findings": listed(findings)}
            return Answer(_REFUSED.format(phase=phase, **words), is_error=True)
        self._accept(phase, output)
        return Answer(_ACCEPTED.format(phase=phase) + self._misfits_told(), is_error=False)

    def note_missing(self, phase: PhaseName) -> None:
        """A turn has ended without an accepted output."""
        message = "The agent ended its turn without handing it in."
        self._refuse(phase, [Finding(rule="not_handed_in", message=message)])

    def settle(self) -> None:
        """The round is over with everything in its place: a change that was tried and given up no longer counts."""
        for record in self._records.values():
            record.refused, record.findings = 0, []
        self._save()

    def last_findings(self, phase: PhaseName) -> list[Finding]:
        """Why the last attempt came to nothing; empty after none."""
        return self._record(phase).findings

    def failure(self) -> tuple[PhaseName, list[Finding]] | None:
        """The phase that has no attempts left, and why its last one came to nothing."""
        for name, kept in self._records.items():
            if kept.refused >= MAX_PHASE_ATTEMPTS:
                return name, kept.findings
        return None

    def watch(self, message: Message) -> None:
        """Counts calls that were refused before they reached us."""
        if isinstance(message, AssistantMessage):
            for block in message.content:
                if isinstance(block, ToolUseBlock):
                    self._note_call(block)
        elif isinstance(message, UserMessage) and isinstance(message.content, list):
            for block in message.content:
                if isinstance(block, ToolResultBlock) and block.tool_use_id in self._calls:
                    self._note_result(self._calls.pop(block.tool_use_id), block)

    def _note_call(self, block: ToolUseBlock) -> None:
        phase = next((name for name in self.orders if full_name(name) == block.name), None)
        if phase is not None:
            self._calls[block.id] = phase

    def _note_result(self, phase: PhaseName, block: ToolResultBlock) -> None:
        if not block.is_error:
            return
        if self._answered[phase]:
            self._answered[phase] -= 1
        elif not [name for name in self._before(phase) if not self.is_handed_in(name)]:
            self._refuse(phase, [Finding(rule="schema", message=_text(block)[:2_000])])

    def _refuse(self, phase: PhaseName, findings: list[Finding]) -> None:
        record = self._record(phase)
        if record.refused >= MAX_PHASE_ATTEMPTS:
            return
        record.refused += 1
        record.findings = findings
        self._save()
        if record.refused >= MAX_PHASE_ATTEMPTS:
            self.exhausted.set()
            return
        told = [finding.model_dump() for finding in findings]
        self._report(EventType.PHASE_RETRY, {"phase": phase, "attempt": record.refused, "findings": told})

    def _accept(self, phase: PhaseName, output: dict[str, Any]) -> None:
        record = self._record(phase)
        record.output = output
        record.revision += 1
        record.attempts = record.refused + 1
        now = time.monotonic()
        record.seconds = round(now - self._started.pop(phase, now), 3)
        record.refused, record.findings, record.told = 0, [], False
        self._save()
        self._tell_untold()

    def _tell_untold(self) -> None:
        """Kept before it is reported, and marked after: a crash in between reports it twice, never not at all."""
        for phase, record in self._records.items():
            if record.told or record.output is None:
                continue
            order = self.orders.get(phase)
            told = {
                "phase": phase,
                "version": order.version if order else 1,
                "attempts": record.attempts,
                "revision": record.revision,
                "output": record.output,
                "seconds": record.seconds,
            }
            self._report(EventType.PHASE_COMPLETED, told)
            record.told = True
            self._save()

    def _misfits_told(self) -> str:
        lines = [f"\n{phase} no longer fits:\n{listed(found)}" for phase, found in self.misfits().items()]
        return "".join(["\nHand these in again as well:", *lines]) if lines else ""

    def _before(self, phase: PhaseName) -> tuple[PhaseName, ...]:
        return AGENT_PHASES[: AGENT_PHASES.index(phase)]

    def _outputs(self) -> dict[str, dict[str, Any]]:
        return {name: kept.output for name, kept in self._records.items() if kept.output is not None}

    def _record(self, phase: PhaseName) -> PhaseRecord:
        return self._records.setdefault(phase, PhaseRecord())

    def _save(self) -> None:
        write_records(self._path, self._records)


def _text(block: ToolResultBlock) -> str:
    if isinstance(block.content, str):
        return block.content
    return "\n".join(str(part.get("text", "")) for part in block.content or [])
