"""From a request to what will be answered: the scenario, the step, the fault."""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

from simulators.model import wire
from simulators.model.conversation import Kind, Message, find_workspace, forced_tool
from simulators.model.position import (
    Place,
    Position,
    index_of,
    replay,
    speaking_place,
    steps_at,
)
from simulators.model.script import Fault, FaultRule, Script, Step, ToolUse

OUT_OF_SCRIPT = Step(text="Understood. There is nothing left to do.")
SUBAGENT_WITHOUT_SCRIPT = Script(turns=[[Step(text="I looked into it and found nothing to report.")]])
PROBE_ANSWER = Step(text="Hi")
GOOD_VERDICT = {"aligned": True, "score": 90, "steering_needed": False, "message": ""}


@dataclass(frozen=True)
class Asked:
    """A request, read. `scenario` is the name its script was found under."""

    kind: Kind
    scenario: str
    session: str
    agent: str | None
    body: dict[str, Any]
    body_bytes: int
    messages: list[Message]

    @property
    def model(self) -> str:
        """The model's name as asked for."""
        return str(self.body.get("model", ""))


@dataclass(frozen=True)
class Chosen:
    """What to answer: the step, its place (None outside any script), and at most one fault."""

    step: Step
    label: str
    place: Place | None = None
    position: Position = field(default_factory=Position)
    fault: Fault | None = None


class FaultCounts:
    """How often each limited fault has struck: the only thing remembered about a conversation."""

    def __init__(self) -> None:
        self._struck: dict[tuple[str, ...], int] = {}

    def strikes(self, fault: Fault, *key: str) -> bool:
        """Whether the fault strikes once more; counts it if so."""
        if fault.times is not None:
            struck = self._struck.get(key, 0)
            if struck >= fault.times:
                return False
            self._struck[key] = struck + 1
        return True

    def clear(self, scenario: str | None = None) -> None:
        """Start counting anew, for one scenario or for all."""
        self._struck = {k: n for k, n in self._struck.items() if scenario not in {None, k[0]}}


def choose(script: Script, asked: Asked, counts: FaultCounts) -> Chosen:
    """The answer to a request of a scripted scenario."""
    if asked.kind == "probe":
        return Chosen(PROBE_ANSWER, "probe")
    if asked.kind == "verdict":
        return Chosen(_verdict(script, asked), "verdict")
    played = _script_of(script, asked)
    if asked.kind == "compaction":
        position = replay(played, _without_last_words(asked.messages))
        return Chosen(_summary(asked.scenario, position), "compaction", position=position)
    position = replay(played, asked.messages)
    place = speaking_place(played, position.place)
    steps = steps_at(played, place)
    first, found = index_of(position.place), index_of(place)
    step, label = (steps[found], str(place)) if found < len(steps) else (OUT_OF_SCRIPT, "generic")
    fault = _step_fault(steps[first : found + 1], asked, str(place), counts)
    return Chosen(step, label, place, position, fault)


def _step_fault(steps: list[Step], asked: Asked, place: str, counts: FaultCounts) -> Fault | None:
    """The first unspent fault among the steps up to the one that answers."""
    for index, step in enumerate(steps):
        key = (asked.scenario, "step", asked.session, asked.agent or "", place, str(index))
        if step.fault and counts.strikes(step.fault, *key):
            return step.fault
    return None


def rule_fault(rules: list[FaultRule], owner: str, asked: Asked, counts: FaultCounts) -> Fault | None:
    """The first rule's fault that applies to the request and is not spent.

    `owner` is the scenario whose script holds the rules (they are counted per session), or empty.
    """
    session = asked.session if owner else ""
    for index, rule in enumerate(rules):
        if _applies(rule, asked) and counts.strikes(rule.fault, owner, "rule", session, str(index)):
            return rule.fault
    return None


def _applies(rule: FaultRule, asked: Asked) -> bool:
    results = sum(part.kind == "tool_result" for message in asked.messages for part in message.parts)
    return (
        (rule.scenario is None or rule.scenario == asked.scenario)
        and (rule.session is None or rule.session == asked.session)
        and (rule.model is None or re.search(rule.model, asked.model) is not None)
        and (rule.body is None or _said(rule.body, asked.messages))
        and results >= rule.after_tool_results
    )


def _said(pattern: str, messages: list[Message]) -> bool:
    return any(re.search(pattern, part.text) for message in messages for part in message.parts)


def _verdict(script: Script, asked: Asked) -> Step:
    rule = next((one for one in script.verdicts if _said(one.match, asked.messages)), None)
    if rule is not None and rule.step is not None:
        return rule.step
    name = forced_tool(asked.body) or ""
    return Step(tool_use=[ToolUse(name=name, input=rule.input if rule else GOOD_VERDICT)])


def _script_of(script: Script, asked: Asked) -> Script:
    if asked.agent is None:
        return script
    prompt = "\n".join(text for message in asked.messages[:1] for text in message.texts())
    for subagent in script.subagents:
        if re.search(subagent.match, prompt):
            return Script(turns=subagent.turns)
    return SUBAGENT_WITHOUT_SCRIPT


def _without_last_words(messages: list[Message]) -> list[Message]:
    """The conversation without the summary prompt, which must not count as something a person said."""
    last = messages[-1]
    results = tuple(part for part in last.parts if part.kind != "text")
    return [*messages[:-1], Message(last.role, results)]


def _summary(scenario: str, position: Position) -> Step:
    lines = [
        "<analysis>Everything that matters is in the summary.</analysis>",
        "<summary>",
        "The work is under way and goes on as planned.",
        f"scenario: {scenario}",
        position.to_text(),
        "</summary>",
    ]
    return Step(text="\n".join(lines))


def render(chosen: Chosen, asked: Asked) -> wire.Answer:
    """The chosen step as a message, with placeholders filled and the fault's marks on it."""
    salt = hashlib.sha256(
        f"{asked.session}/{asked.agent}/{chosen.label}/{len(asked.messages)}".encode()
    ).hexdigest()
    workspace = find_workspace(asked.body, asked.messages) or "."
    filled = wire.fill(
        chosen.step.model_dump(include={"text", "tool_use"}), workspace, asked.session, chosen.position.found
    )
    content: list[dict[str, Any]] = []
    if filled["text"] is not None:
        content.append({"type": "text", "text": filled["text"]})
    for index, tool in enumerate(filled["tool_use"]):
        tool_id = chosen.place.tool_id(index, salt[:10]) if chosen.place else f"toolu_{salt[:24]}"
        content.append({"type": "tool_use", "id": tool_id, "name": tool["name"], "input": tool["input"]})
    usage: wire.Usage | None = wire.compute_usage(asked.body, asked.body_bytes, content)
    usage = (usage or {}) | (chosen.step.usage or {})
    stop_reason = "tool_use" if filled["tool_use"] else "end_turn"
    match chosen.fault.kind if chosen.fault else None:
        case "max_tokens" | "refusal" as reason:
            content, stop_reason = content[:1], reason
        case "missing_usage":
            usage = None
        case "absurd_usage":
            usage = dict.fromkeys(usage, 10**12)
    return wire.Answer(f"msg_{salt[:24]}", asked.model, content, stop_reason, usage)
