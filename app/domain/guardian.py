"""The guardian: what it sees in the trajectory of a running agent, and what follows. Pure.

It reads each event once (`follow`), keeps little (`Trail`), and finds at most one thing at a time: after a reminder
nothing more is found until the agent has taken it in. Rules are there to break loops and to bring out what people would
want to know; what a result is worth is decided where results are taken in.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from app.domain.guardian_signs import (
    MAX_DETAIL,
    MAX_PATH,
    TESTS_KEPT,
    Edit,
    digest,
    is_beside_tests,
    is_test,
    parse_call,
    parse_edit,
    parse_error,
)
from sandbox_payload.wire import EventType

SAME_COMMAND = 5
"""Times the same call of a tool, among the newest `CALLS_KEPT`, with no file changed in between."""
CALLS_KEPT = 20
SAME_ERROR = 3
"""Times the same error among the newest `ERRORS_KEPT` ones."""
ERRORS_KEPT = 10
SAME_EDIT = 3
"""Times the very same change of a file among the newest `EDITS_KEPT`."""
BACK_AND_FORTH = 4
"""Times a change and its undoing, together."""
EDITS_KEPT = 20
CALLS_WITHOUT_CHANGE = 60
"""Calls of tools in a row that change no file, where the task is to change files."""
FILES_OUTSIDE = 3
"""Different files that the task does not name."""
BUDGET_SHARE = 0.8
PATIENCE = timedelta(minutes=5)
"""A reminder that has not been confirmed for so long counts as taken in: it is the sandbox that confirms."""
MAX_NUDGES = 3
"""Of one task, until a person lets it go on."""
PENDING_KEPT = 20
TOUCHED_KEPT = 40

NUDGED, PAUSED = "guardian.nudged", "guardian.paused"
"""What an intervention is called in the trajectory."""
READ = (
    EventType.TOOL_USE,
    EventType.USER_TOOL_RESULT,
    EventType.FILE_EDITED,
    EventType.MESSAGE_INJECTED,
    EventType.WAITING,
)
"""The events that rules look at."""
_IDS = uuid.UUID("5b0f2c1e-6f0a-4c39-9d5c-0e6f4a1d7b52")


class Rule(StrEnum):
    TESTS = "tests"
    """Tests deleted, with their file or within it, or taken out of force."""
    EDIT = "edit"
    ERROR = "error"
    COMMAND = "command"
    NO_CHANGE = "no_change"
    OUTSIDE = "outside"
    BUDGET = "budget"
    VERDICT = "verdict"
    """A model that was asked says that the agent needs steering."""


WARNINGS = frozenset({Rule.OUTSIDE, Rule.BUDGET})
"""Said once to a sandbox; never a reason to pause."""


@dataclass(frozen=True)
class Finding:
    """`seq`: the event that it was seen at; `detail` quotes the agent (or the model that was asked about it), in one short
    line, or is empty.
    """

    rule: Rule
    seq: int
    detail: str = ""
    count: int = 0

    def message_id(self, sandbox_id: str) -> uuid.UUID:
        """The same finding has the same id, whoever makes it and however often."""
        return uuid.uuid5(_IDS, f"{sandbox_id}/{self.rule.value}/{self.seq}")


@dataclass(frozen=True)
class Job:
    """What a sandbox is for, as far as rules ask. `files`: the paths that its task names, with what happens to them."""

    sandbox_id: str
    changes_files: bool = True
    """False where an agent may well end without changing one: while planning, in research, in review."""
    plans: bool = False
    """What a planning sandbox does to files is handed to nobody."""
    files: Mapping[str, str] = field(default_factory=dict)
    budget_usd: float = 0.0
    spent_usd: float = 0.0


@dataclass(frozen=True)
class Seen:
    """An event as it is stored."""

    seq: int
    event_type: str
    data: Mapping[str, Any]


@dataclass
class Trail:
    """What is kept between two looks: digests and counts, never more than a few thousand characters."""

    calls: list[str] = field(default_factory=list)
    """Since the last change of a file, the newest last."""
    errors: list[str] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)
    quiet: int = 0
    """Calls since the last change of a file."""
    outside: list[str] = field(default_factory=list)
    """Paths that the task does not name."""
    deleted: dict[str, str] = field(default_factory=dict)
    """Files of tests deleted by the newest changes, in which no single test was seen: path to the digest of what was in
    them. Others may have taken their place.
    """
    missing: dict[str, list[str]] = field(default_factory=dict)
    """Tests removed by the newest changes: path to the digests of their heads. Others may have taken their place."""
    fresh: list[str] = field(default_factory=list)
    """Tests added by the newest changes that took no other's place, as digests of their heads."""
    added: list[str] = field(default_factory=list)
    """The same of the changes before: an agent's own tests, which it may take away again."""
    weakened_by: list[str] = field(default_factory=list)
    """Lines added by the newest changes that take tests out of force, each with its path."""
    restored: int = 0
    """Lines of that kind removed by them: what is moved as it is was out of force before."""
    created: list[str] = field(default_factory=list)
    """Names and contents of tests that were created, as digests."""
    touched: list[str] = field(default_factory=list)
    """The paths that were changed last, each once."""
    warned: list[str] = field(default_factory=list)
    nudge: str = ""
    """Id of the reminder that the agent has not taken in yet; empty when there is none."""
    nudged_for: str = ""

    @classmethod
    def parse(cls, stored: Mapping[str, Any]) -> Trail:
        """From `asdict`; of an older release's fields those that are known."""
        return cls(**{name: stored[name] for name in cls.__dataclass_fields__ if name in stored})

    def dump(self) -> dict[str, Any]:
        return asdict(self)

    def forget(self) -> None:
        """Repetitions from before no longer count."""
        self.calls, self.errors, self.edits, self.quiet = [], [], [], 0

    def take_in(self) -> None:
        """The agent has the reminder: what it was about counts from here on."""
        self.forget()
        if self.nudged_for == Rule.TESTS:
            self.deleted, self.missing, self.weakened_by, self.restored = {}, {}, [], 0
        self.drop()

    def drop(self) -> None:
        """There is no reminder to wait for."""
        self.nudge = self.nudged_for = ""


def follow(trail: Trail, job: Job, events: Iterable[Seen]) -> Finding | None:
    """Reads events in their order into `trail`; what was found, at most one thing."""
    found: Finding | None = None
    for event in events:
        judged = _read(trail, job, event)
        if judged is not None and not trail.nudge:
            trail.nudge, trail.nudged_for = str(judged.message_id(job.sandbox_id)), judged.rule.value
            found = judged
    return found


def find_spending(trail: Trail, job: Job, seq: int) -> Finding | None:
    """Whether most of the sandbox's own budget is used up; said once."""
    share = BUDGET_SHARE * job.budget_usd
    if trail.nudge or Rule.BUDGET in trail.warned or not 0 < share <= job.spent_usd:
        return None
    finding = Finding(Rule.BUDGET, seq, count=min(round(100 * job.spent_usd / job.budget_usd), 100))
    trail.warned.append(Rule.BUDGET.value)
    trail.nudge, trail.nudged_for = str(finding.message_id(job.sandbox_id)), Rule.BUDGET.value
    return finding


def find_advice(trail: Trail, job: Job, seq: int, advice: str) -> Finding | None:
    """What a model, shown the events up to `seq`, wants to be said; nothing while a reminder is on its way."""
    if trail.nudge:
        return None
    finding = Finding(Rule.VERDICT, seq, advice, 1)
    trail.nudge, trail.nudged_for = str(finding.message_id(job.sandbox_id)), Rule.VERDICT.value
    return finding


def _read(trail: Trail, job: Job, event: Seen) -> Finding | None:
    match event.event_type:
        case EventType.FILE_EDITED:
            return _read_edit(trail, job, event)
        case EventType.TOOL_USE:
            return _settle_tests(trail, event) or _read_call(trail, job, event)
        case EventType.USER_TOOL_RESULT:
            return _settle_tests(trail, event) or _read_error(trail, event)
        case EventType.MESSAGE_INJECTED if trail.nudge and event.data.get("message_id") == trail.nudge:
            trail.take_in()
        case EventType.WAITING:
            trail.forget()
    return None


def _read_call(trail: Trail, job: Job, event: Seen) -> Finding | None:
    trail.quiet += 1
    call = parse_call(event.data)
    if call is not None:
        times = _keep(trail.calls, call.digest, CALLS_KEPT)
        if times >= SAME_COMMAND:
            return Finding(Rule.COMMAND, event.seq, call.shown, times)
    if job.changes_files and trail.quiet >= CALLS_WITHOUT_CHANGE:
        return Finding(Rule.NO_CHANGE, event.seq, count=trail.quiet)
    return None


def _read_error(trail: Trail, event: Seen) -> Finding | None:
    error = parse_error(event.data)
    if error is None:
        return None
    times = _keep(trail.errors, error.digest, ERRORS_KEPT)
    return Finding(Rule.ERROR, event.seq, error.shown, times) if times >= SAME_ERROR else None


def _read_edit(trail: Trail, job: Job, event: Seen) -> Finding | None:
    edit = parse_edit(event.data)
    if edit is None:
        return None
    trail.calls, trail.quiet = [], 0
    trail.touched = [*(path for path in trail.touched if path != edit.path), edit.path][-TOUCHED_KEPT:]
    _note_test(trail, job, edit)
    if edit.removed is not None or edit.added is not None:
        times = _keep(trail.edits, edit.forth, EDITS_KEPT)
        both = times + trail.edits.count(edit.back)
        if times >= SAME_EDIT or (times > 1 and both >= BACK_AND_FORTH):
            return Finding(Rule.EDIT, event.seq, edit.path[:MAX_DETAIL], both)
    return _read_place(trail, job, edit, event.seq)


def _read_place(trail: Trail, job: Job, edit: Edit, seq: int) -> Finding | None:
    """Whether it lies where the task has nothing to do: not beside a file that it names, and no test."""
    if not job.files or Rule.OUTSIDE in trail.warned or is_test(edit.path) or is_beside_tests(edit.path):
        return None
    beside = {PurePosixPath(path).parent for path in job.files}
    if PurePosixPath(edit.path).parent in beside or edit.path in trail.outside:
        return None
    trail.outside.append(edit.path[:MAX_PATH])
    if len(trail.outside) < FILES_OUTSIDE or trail.nudge:
        del trail.outside[:-FILES_OUTSIDE]
        return None
    trail.warned.append(Rule.OUTSIDE.value)
    return Finding(Rule.OUTSIDE, seq, edit.path[:MAX_DETAIL], len(trail.outside))


def _note_test(trail: Trail, job: Job, edit: Edit) -> None:
    """A test that comes up under another name, or in whose place another one comes, was not taken away."""
    if job.plans:
        return
    for head in edit.tests_added:
        if not any(_take(heads, head) for heads in trail.missing.values()):
            trail.fresh.append(head)
    del trail.fresh[TESTS_KEPT:]
    weak = [f"{edit.path}: {line}"[:MAX_DETAIL] for line in edit.weakens]
    trail.weakened_by = [*trail.weakened_by, *weak][:PENDING_KEPT]
    trail.restored += edit.restores
    wanted = job.files.get(edit.path) == "delete"
    if not wanted:
        _note_removed(trail, edit)
    if is_test(edit.path) and not (wanted and edit.change == "deleted"):
        _note_file(trail, edit)


def _note_file(trail: Trail, edit: Edit) -> None:
    name = digest(PurePosixPath(edit.path).name)
    if edit.change == "deleted":
        if not edit.tests_removed and name not in trail.created and (edit.removed or "") not in trail.created:
            trail.deleted[edit.path] = edit.removed or ""
            while len(trail.deleted) > PENDING_KEPT:
                del trail.deleted[next(iter(trail.deleted))]
        return
    if edit.change == "created" and edit.added is not None:  # an empty one stands for nothing
        trail.created = [*trail.created, name, edit.added][-2 * PENDING_KEPT :]
        if trail.deleted:
            same = (path for path, content in trail.deleted.items() if content and content == edit.added)
            del trail.deleted[next(same, next(iter(trail.deleted)))]


def _note_removed(trail: Trail, edit: Edit) -> None:
    """Of its removed tests those that were not added by the agent itself, here or elsewhere."""
    gone = [head for head in edit.tests_removed if not (_take(trail.fresh, head) or _take(trail.added, head))]
    anew = digest(PurePosixPath(edit.path).name) in trail.created and edit.change == "deleted"
    if anew and len(gone) <= len(trail.added):  # the file was written anew at another place, before
        del trail.added[: len(gone)]
    elif gone:
        room = max(TESTS_KEPT - sum(map(len, trail.missing.values())), 0)
        if edit.path in trail.missing or len(trail.missing) < PENDING_KEPT:
            trail.missing[edit.path] = [*trail.missing.get(edit.path, []), *gone[:room]]


def _settle_tests(trail: Trail, event: Seen) -> Finding | None:
    """Once all that a tool changed is known."""
    if trail.nudge:
        return None
    fewer = _settle_heads(trail)
    gone = next(iter(trail.deleted), "")
    weakened = next(iter(trail.weakened_by[trail.restored :]), "")
    detail = f"{gone} deleted"[:MAX_DETAIL] if gone else weakened or fewer
    trail.deleted, trail.weakened_by, trail.restored = {}, [], 0
    return Finding(Rule.TESTS, event.seq, detail, 1) if detail else None


def _settle_heads(trail: Trail) -> str:
    """What is to be said of tests in whose place no others came, "" when there are none."""
    replaced, detail = len(trail.fresh), ""
    for path, heads in trail.missing.items():
        taken = min(replaced, len(heads))
        replaced -= taken
        left = len(heads) - taken
        if left and not detail:
            detail = f"{path[: MAX_DETAIL - 20]}: {left} {'test' if left == 1 else 'tests'} fewer"
    trail.added = [*trail.added, *trail.fresh[len(trail.fresh) - replaced :]][-TESTS_KEPT:]
    trail.missing, trail.fresh = {}, []
    return detail


def _take(kept: list[str], one: str) -> bool:
    """Removes it; whether it was there."""
    if one not in kept:
        return False
    kept.remove(one)
    return True


def _keep(kept: list[str], one: str, most: int) -> int:
    """Adds it to the newest ones; how often it is among them."""
    kept.append(one)
    del kept[:-most]
    return kept.count(one)


class Answer(StrEnum):
    """What follows from a finding."""

    NUDGE = "nudge"
    PAUSE = "pause"
    NOTHING = "nothing"


def decide_answer(finding: Finding, nudges: int) -> Answer:
    """`nudges`: how many the task has had since a person last let it go on."""
    if nudges < MAX_NUDGES:
        return Answer.NUDGE
    return Answer.NOTHING if finding.rule in WARNINGS else Answer.PAUSE
