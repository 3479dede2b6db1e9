"""Which sandboxes are in trouble, and what follows. Pure: rows and sights in, verdicts out.

Our own silence is not theirs: while nobody watched, or no web process could have heard them, no time counts against a
sandbox (`Observation`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from app.domain.ports import SandboxStatus
from app.domain.states import SandboxState


class Trouble(StrEnum):
    """What is wrong with a sandbox; stored with it, and the reason that its end is recorded under."""

    NOT_STARTED = "not_started"
    """It was ordered, and there is none."""
    ABSENT = "absent"
    """The provider no longer has it."""
    ENDED = "ended"
    """It ended without handing anything in."""
    NO_HEARTBEAT = "no_heartbeat"
    SPOOL_STOPPED = "spool_stopped"
    """Signs of life arrive, but an event before them never does."""
    IDLE = "idle"
    """It lives, and nothing in it does any work."""
    BETWEEN_PHASES = "between_phases"
    """A planning phase has ended and no other has begun."""
    OVERSTAYED = "overstayed"
    """Its work is done, and it should have gone by itself."""
    TIME_LIMIT = "time_limit"
    BUDGET = "budget"


SEEN = {
    Trouble.NOT_STARTED: "It was ordered, and there was none in time.",
    Trouble.ABSENT: "The provider no longer had it.",
    Trouble.ENDED: "It ended without handing anything in.",
    Trouble.NO_HEARTBEAT: "It gave no sign of life.",
    Trouble.SPOOL_STOPPED: "It gave signs of life, but what it had reported before never arrived.",
    Trouble.IDLE: "It lived, and nothing in it did any work.",
    Trouble.BETWEEN_PHASES: "A planning phase had ended, and no other began.",
    Trouble.OVERSTAYED: "Its work was done, and it did not go by itself.",
    Trouble.TIME_LIMIT: "Its time was used up.",
    Trouble.BUDGET: "Its budget was used up.",
}
"""For operators; what people on GitHub are told stands in `notices`."""
LOG_TAIL = "log.tail"
"""The artifact that holds the end of a lost sandbox's own output, redacted."""

FINAL = frozenset({Trouble.TIME_LIMIT, Trouble.BUDGET})
"""Another sandbox would only use up the same once more."""
GONE = frozenset({Trouble.ABSENT, Trouble.ENDED})
"""There is nothing left that could be asked to stop."""

CREATING_LIMIT = timedelta(minutes=45)
"""For the provider: the first use of an image takes minutes, and providers give up by themselves before that."""
PENDING_LIMIT = timedelta(minutes=60)
"""For us: a large repository is cloned before anything is ordered."""
REACHABLE = timedelta(seconds=60)
"""A web process that has said nothing for so long hears nobody."""


@dataclass(frozen=True)
class Thresholds:
    """How long each kind of trouble is waited out. `waiting`: how long a finished sandbox may stay for messages."""

    silent: timedelta = timedelta(minutes=2)
    idle: timedelta = timedelta(minutes=10)
    between_phases: timedelta = timedelta(minutes=5)
    absent: timedelta = timedelta(minutes=3)
    waiting: timedelta = timedelta(minutes=10)


@dataclass(frozen=True)
class Watched:
    """A live sandbox as the database knows it. `phase_ended_at`: when the last phase of its plan ended, while none runs
    and some are missing; else None.
    """

    sandbox_id: str
    spec_id: str
    name: str
    state: SandboxState
    created_at: datetime
    deadline_at: datetime
    ordered_at: datetime | None = None
    started_at: datetime | None = None
    last_heartbeat_at: datetime | None = None
    last_work_at: datetime | None = None
    gap_since_at: datetime | None = None
    phase_ended_at: datetime | None = None
    waiting: bool = False
    """It has said that it is done and waits for messages."""
    running: str | None = None
    handed_in: bool = False
    """A result is stored that no step has dealt with."""
    awaits_provider: bool = False
    """The provider has no room, or refuses our key: nothing was ordered, and that may last."""
    spent_usd: float = 0.0
    budget_usd: float = 0.0


@dataclass(frozen=True)
class Observation:
    """`since_at`: since when sandboxes have been watched and heard without a pause; None: nobody hears them now."""

    now: datetime
    since_at: datetime | None


@dataclass(frozen=True)
class Listener:
    """A web process: up since, and last sign of life."""

    started_at: datetime
    beat_at: datetime


def decide_observation(
    now: datetime, watched_since_at: datetime, listeners: Iterable[Listener]
) -> Observation:
    """Whose silence counts since when. Where no web process is known at all, nothing says that they can't be heard."""
    known = list(listeners)
    up = [one.started_at for one in known if now - one.beat_at <= REACHABLE]
    if known and not up:
        return Observation(now, None)
    return Observation(now, max([watched_since_at, *([min(up)] if up else [])]))


def decide_trouble(
    one: Watched, sight: SandboxStatus | None, seen: Observation, limits: Thresholds
) -> Trouble | None:
    """The first thing that is wrong. `sight` None: the provider could not be asked."""
    if one.handed_in:
        return None
    if one.state in {SandboxState.PENDING, SandboxState.CREATING}:
        return _not_started(one, sight, seen.now, limits)
    if sight is SandboxStatus.ABSENT:
        return Trouble.ABSENT
    if sight is SandboxStatus.ERROR or (sight is SandboxStatus.EXITED and not one.waiting):
        return Trouble.ENDED
    if seen.now > one.deadline_at:
        return Trouble.TIME_LIMIT
    if not one.waiting and 0 < one.budget_usd <= one.spent_usd:
        return Trouble.BUDGET
    return _by_silence(one, seen, limits)


def _not_started(
    one: Watched, sight: SandboxStatus | None, now: datetime, limits: Thresholds
) -> Trouble | None:
    if one.ordered_at is None:
        late = not one.awaits_provider and now - one.created_at > PENDING_LIMIT
    elif sight is SandboxStatus.ABSENT:
        late = now - one.ordered_at > limits.absent
    elif sight is SandboxStatus.CREATING:
        late = now - one.ordered_at > CREATING_LIMIT
    else:
        late = False  # running or ended: the step that orders it sees that next
    return Trouble.NOT_STARTED if late else None


def _by_silence(one: Watched, seen: Observation, limits: Thresholds) -> Trouble | None:
    if seen.since_at is None:
        return None
    since = seen.since_at

    def lasts(limit: timedelta, *signs: datetime | None) -> bool:
        return seen.now - max(since, *(sign for sign in signs if sign is not None)) > limit

    begun = one.started_at or one.created_at
    if lasts(limits.silent, begun, one.last_heartbeat_at, one.last_work_at):
        return Trouble.NO_HEARTBEAT
    if one.gap_since_at is not None and lasts(limits.silent, one.gap_since_at):
        return Trouble.SPOOL_STOPPED
    if one.waiting:
        stayed = lasts(limits.waiting + limits.idle, begun, one.last_work_at)
        return Trouble.OVERSTAYED if stayed else None
    if one.running is not None:
        return None
    if one.phase_ended_at is not None and lasts(limits.between_phases, begun, one.phase_ended_at):
        return Trouble.BETWEEN_PHASES
    return Trouble.IDLE if lasts(limits.idle, begun, one.last_work_at) else None


def is_out_of_memory(reason: str, exit_code: int | None) -> bool:
    """Whether more memory may help. A killed process (137 is 128 + SIGKILL) does not say by whom; nobody but the
    kernel kills in there.
    """
    text = reason.lower()
    return exit_code == 137 or text.startswith("memory") or "out of memory" in text or text == "cli_killed"


def decide_memory_gb(wanted: int, before: int | None, most: int, *, out_of_memory: bool) -> int:
    """Of the next sandbox: as wanted, or what the one before had, or twice that when it was too little; never above
    `most`, unless the wanted size is.
    """
    base = max(wanted, before or 0)
    return max(wanted, min(base * 2 if out_of_memory else base, most))
