"""Where in its script a conversation stands: a pure replay of the request's own history.

Nothing is remembered between requests, so the same request always gets the same step: a retry, a request
after the simulator was restarted, or a session resumed in a new CLI process.

- Every tool call carries its place in its id (`toolu_t0s3i0_…`), and the CLI sends ids back.
- A text-only answer ends the turn; the next prompt starts the next one. Text beside tool results (a message
  sent while the agent works) does not.
- A prompt that a chapter matches begins that chapter. A conversation resumed elsewhere, or one that has lost its
  history, so lands on the right step.
- An interrupt ends the turn. A call that died with its process ("interrupted, outcome unknown") is made
  again by whatever prompt comes next.
- Nudges of the CLI (for StructuredOutput) stay in their turn. An accepted StructuredOutput call ends it.
- A compaction summary carries the place, since ids are gone afterwards.
- Subagents have a history of their own, and so a place of their own.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from simulators.model.conversation import (
    CONTINUED,
    INTERRUPTED,
    SYNTHETIC_ANSWER,
    Message,
    Part,
    is_nudge,
    is_prompt,
)
from simulators.model.patterns import first_group
from simulators.model.script import Script, Step

STRUCTURED_OUTPUT = "StructuredOutput"
_TOOL_ID = re.compile(r"toolu_t(\d+)s(\d+)(?:([re])(\d+)k(\d+))?i(\d+)_[0-9a-f]+")
_PROGRESS = re.compile(r"^script position: (\{.*\})$", re.MULTILINE)
CHAPTER = 1000
"""Turns of the first chapter are numbered from here, those of the second from twice this."""
_OUTCOME_UNKNOWN = re.compile(r"interrupted.{0,200}(?:unknown|may or may not)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Place:
    """One step's address: turn and step, and the side steps (`r` message rule, `e` on_error) taken there."""

    turn: int
    step: int
    side: str = ""
    side_index: int = 0
    side_step: int = 0

    def __str__(self) -> str:
        side = f"{self.side}{self.side_index}k{self.side_step}" if self.side else ""
        return f"t{self.turn}s{self.step}{side}"

    def tool_id(self, index: int, salt: str) -> str:
        """The id of the step's tool call number `index`; `salt` (hexadecimal) makes it unique."""
        return f"toolu_{self}i{index}_{salt}"


def parse_tool_id(tool_id: str) -> Place | None:
    """The place a tool call of ours came from; None for ids that are not ours."""
    found = _TOOL_ID.fullmatch(tool_id)
    if not found:
        return None
    turn, step, side, side_index, side_step, _ = found.groups()
    return Place(int(turn), int(step), side or "", int(side_index or 0), int(side_step or 0))


@dataclass
class Position:
    """The replayed state. `place` is what comes next; `ended` says that its turn is over until a prompt."""

    place: Place = field(default_factory=lambda: Place(0, 0))
    ended: bool = False
    next_turn: int = 1
    fired: set[int] = field(default_factory=set)
    found: dict[str, str] = field(default_factory=dict)

    def to_text(self) -> str:
        """The line that carries the position through a compaction."""
        place = self.place
        state = {
            "place": [place.turn, place.step, place.side, place.side_index, place.side_step],
            "ended": self.ended,
            "next_turn": self.next_turn,
            "fired": sorted(self.fired),
            "found": self.found,
        }
        return "script position: " + json.dumps(state)


def replay(script: Script, messages: Iterable[Message]) -> Position:
    """Walk through a conversation and return where its script stands."""
    position = Position()
    for message in messages:
        if message.role == "assistant":
            _hear_model(script, position, message)
        else:
            _hear_person(script, position, message)
    return position


def steps_at(script: Script, place: Place) -> list[Step]:
    """The list of steps that `place` points into; empty when the script has no such turn, rule or branch."""
    if place.side == "r":
        rules = script.on_message
        return rules[place.side_index].steps if place.side_index < len(rules) else []
    chapter, turn = divmod(place.turn, CHAPTER)
    turns = (
        script.turns
        if not chapter
        else script.chapters[chapter - 1].turns
        if chapter <= len(script.chapters)
        else []
    )
    steps = turns[turn] if turn < len(turns) else []
    if place.side == "e":
        return steps[place.step].on_error if place.step < len(steps) else []
    return steps


def index_of(place: Place) -> int:
    """The index of the step within `steps_at`."""
    return place.side_step if place.side else place.step


def _hear_model(script: Script, position: Position, message: Message) -> None:
    calls = [place for part in message.parts if (place := parse_tool_id(part.tool_id)) is not None]
    said = "".join(message.texts()).strip()
    if calls:
        position.place = _after(script, calls[-1])
        position.ended = False
        if calls[-1].side == "r":
            position.fired.add(calls[-1].side_index)
    elif said and said != SYNTHETIC_ANSWER:
        spoken = speaking_place(script, position.place)
        # A rule that answered a prompt before the turn's own first step leaves that turn for the next one.
        untouched = spoken.side == "r" and spoken.step == 0
        position.place = _after(script, spoken)
        position.ended = True
        position.next_turn = spoken.turn if untouched else spoken.turn + 1


def speaking_place(script: Script, place: Place) -> Place:
    """The first place from `place` on that has an answer; past the list's end when none is left."""
    steps = steps_at(script, place)
    index = index_of(place)
    while index < len(steps) and not steps[index].speaks:
        index += 1
    return _at(place, index)


def _at(place: Place, index: int) -> Place:
    if place.side:
        return Place(place.turn, place.step, place.side, place.side_index, index)
    return Place(place.turn, index)


def _after(script: Script, place: Place) -> Place:
    """What follows once `place` was answered; a side branch leads back to the turn."""
    following = _at(place, index_of(place) + 1)
    if not place.side or index_of(following) < len(steps_at(script, place)):
        return following
    return Place(place.turn, place.step + 1 if place.side == "e" else place.step)


def _hear_person(script: Script, position: Position, message: Message) -> None:
    for part in message.parts:
        if part.kind == "tool_result":
            _hear_tool(script, position, part)
        elif part.kind == "text":
            _hear_text(position, part.text, from_user=message.role == "user")
            if message.role == "user":
                _begin_chapter(script, position, part.text)
            _fire_rules(script, position, part.text)


def _hear_tool(script: Script, position: Position, result: Part) -> None:
    place = parse_tool_id(result.tool_id)
    if place is None:
        return
    steps = steps_at(script, place)
    step = steps[index_of(place)] if index_of(place) < len(steps) else None
    if result.is_error and _OUTCOME_UNKNOWN.search(result.text):
        position.place = place
        return
    if step is None:
        return
    for name, pattern in step.capture.items():
        value = first_group(pattern, result.text)
        if value is not None:
            position.found[name] = value
    if result.is_error and step.on_error and not place.side:
        position.place = Place(place.turn, place.step, "e")
    if not result.is_error and any(tool.name == STRUCTURED_OUTPUT for tool in step.tool_use):
        position.ended, position.next_turn = True, place.turn + 1


def _hear_text(position: Position, text: str, *, from_user: bool) -> None:
    if CONTINUED in text:
        _restore(position, text)
    elif text.lstrip().startswith(INTERRUPTED):
        position.ended, position.next_turn = True, position.place.turn + 1
    elif is_nudge(text):
        position.ended = False
    elif from_user and position.ended and is_prompt(text):
        position.place = Place(position.next_turn, 0)
        position.ended = False


def _begin_chapter(script: Script, position: Position, text: str) -> None:
    if not is_prompt(text):
        return
    for number, chapter in enumerate(script.chapters, 1):
        if re.search(chapter.match, text, re.MULTILINE):
            position.place = Place(number * CHAPTER, 0)
            position.ended = False
            return


def _restore(position: Position, summary: str) -> None:
    found = _PROGRESS.search(summary)
    if not found:
        return
    try:
        state = json.loads(found.group(1))
        turn, step, side, side_index, side_step = state["place"]
        place = Place(int(turn), int(step), str(side), int(side_index), int(side_step))
        fired, values = set(map(int, state["fired"])), dict(state["found"])
        ended, next_turn = bool(state["ended"]), int(state["next_turn"])
    except (ValueError, TypeError, KeyError):
        return  # anybody can write such a line; only ours counts
    position.place, position.ended, position.next_turn = place, ended, next_turn
    position.fired, position.found = fired, values


def _fire_rules(script: Script, position: Position, text: str) -> None:
    if CONTINUED in text:
        return
    for index, rule in enumerate(script.on_message):
        if index not in position.fired and re.search(rule.match, text):
            position.fired.add(index)
            position.place = Place(position.place.turn, position.place.step, "r", index)
            return
