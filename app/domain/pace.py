"""How often GitHub may be written to, what goes first, and how lively a status comment may be. Pure.

The numbers are GitHub's: a second between writes (its best practices for integrators), and the secondary limits of 80
content-creating requests a minute and 500 an hour. Which requests create content is not documented, so every write
counts here, edits and pushes too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

WRITE_GAP = timedelta(seconds=1)
"""Between two writes to one installation, on average."""


class Urgency(IntEnum):
    """What a write is for. The larger goes first, and has more of the pace to itself; the least has a share that none
    of the others takes.
    """

    BACKGROUND = 0
    """Nobody waits for it: the labels of a new repository."""
    PROGRESS = 1
    """An edit that the next one replaces."""
    WORK = 2
    """What a run is made of: branch, pull request, check run, the first status comment."""
    FINAL = 3
    """How it ended, and answers to people."""


@dataclass(frozen=True)
class Room:
    """`burst`: how far writes may run ahead of one a second; `per_hour`: with this many in the last hour it is full."""

    burst: timedelta
    per_hour: int


ROOMS: Mapping[Urgency, Room] = {
    Urgency.BACKGROUND: Room(timedelta(0), 250),
    Urgency.PROGRESS: Room(timedelta(seconds=2), 400),
    Urgency.WORK: Room(timedelta(seconds=8), 430),
    Urgency.FINAL: Room(timedelta(seconds=12), 490),
}
"""A longer burst is also what puts a kind first: once everyone else stands at the end of theirs, the rest is its own.
The longest makes 60 + 12 + 1 writes in the busiest minute."""

BACKGROUND_SHARE = 30
"""So many writes of an hour are BACKGROUND's however full its room is: work that never rests would starve it."""
SHARE_PER_HOUR = ROOMS[Urgency.WORK].per_hour + BACKGROUND_SHARE
"""With this many in the last hour the share rests too, so that none of what is kept for FINAL goes to it."""

FARTHEST_AHEAD = max(room.burst for room in ROOMS.values()) + WRITE_GAP
"""`next_write_at` never lies farther ahead of now."""


def decide_background_free(
    room: datetime | None, share: datetime | None, hour: datetime | None
) -> datetime | None:
    """When the last hour has room again for a BACKGROUND write, None when it has: in its room, or in its share while
    the hour is not at `SHARE_PER_HOUR`. Each is when that one has room again, None when it has.
    """
    shared = max((one for one in (share, hour) if one is not None), default=None)
    return None if room is None or shared is None else min(room, shared)


def decide_write(
    now: datetime, next_write_at: datetime | None, urgency: Urgency, hour_free_at: datetime | None
) -> tuple[datetime, datetime | None]:
    """(when this write may go, what `next_write_at` becomes if it goes now; None when it may not go now).

    `next_write_at` is when the installation would be back to a write a second. `hour_free_at` is when the hour has room
    again for this urgency; None when it has.
    """
    if next_write_at is not None and next_write_at > now + FARTHEST_AHEAD:
        next_write_at = None  # the clock was set back
    ahead = max(next_write_at or now, now)
    free_at = max(ahead - ROOMS[urgency].burst, hour_free_at or now, now)
    return free_at, ahead + WRITE_GAP if free_at <= now else None


LONGEST_QUEUE = timedelta(minutes=2)


def decide_turn(free_at: datetime, turn_at: datetime | None) -> tuple[datetime, datetime]:
    """(when one who found no room until `free_at` comes back, what `turn_at` becomes): one after the other, a write's
    gap apart. Each coming back costs reads, and only one of them would find room.
    """
    mine = turn_at if turn_at is not None and free_at <= turn_at <= free_at + LONGEST_QUEUE else free_at
    return mine, mine + WRITE_GAP


class EditKind(StrEnum):
    """What a progress edit would tell."""

    STATE = "state"
    """Something else is going on now."""
    COUNTERS = "counters"
    """The same, with larger numbers."""


@dataclass(frozen=True)
class Liveliness:
    """Of one kind of edit: at least `gap` apart; together at most a part of what `per_hour` leaves over."""

    gap: timedelta
    per_minute: int
    per_hour: int
    share: float
    """Of the remaining writes of an hour, how many hours they must last: smaller is livelier."""


LIVELINESS: Mapping[EditKind, Liveliness] = {
    EditKind.STATE: Liveliness(timedelta(seconds=6), per_minute=55, per_hour=380, share=0.15),
    EditKind.COUNTERS: Liveliness(timedelta(seconds=8), per_minute=40, per_hour=340, share=0.5),
}
LONGEST_GAP = timedelta(minutes=20)
FULL_PAUSE = timedelta(seconds=30)
"""When to look again while the hour or the minute is full."""


@dataclass(frozen=True)
class Pressure:
    """What goes on in one installation: specs at work, and its writes of the last minute and hour."""

    live_specs: int
    last_minute: int
    last_hour: int


def decide_edit_wait(pressure: Pressure, kind: EditKind, since_last: timedelta) -> timedelta:
    """How long a progress edit has to wait yet; zero: it may be written now.

    The distance grows with the number of specs that share an installation and with what was written in the last hour,
    so that what is left lasts, and ends go through at any time. Alone and early it is the kind's shortest.
    """
    rule = LIVELINESS[kind]
    left = rule.per_hour - pressure.last_hour
    if left <= 0 or pressure.last_minute >= rule.per_minute:
        return FULL_PAUSE
    wanted = HOUR * (max(pressure.live_specs, 1) * rule.share / left)
    gap = min(max(wanted, rule.gap), LONGEST_GAP)
    return min(max(gap - since_last, timedelta(0)), gap)  # never longer, though the clock was set back


CALM_AFTER = 2
"""Put off this often in a row, it is more than a hiccup."""
LONGEST_DELAY = timedelta(minutes=2)


def decide_retry_delay(times: int, spread: float) -> timedelta:
    """How long to leave something alone that GitHub put off `times` times in a row; `spread` (0 to 1) keeps those who
    were put off together from coming back together. Zero for the first ones, whose own pause is enough.
    """
    if times <= CALM_AFTER:
        return timedelta(0)
    full = min(timedelta(seconds=5 << min(times - CALM_AFTER, 10)), LONGEST_DELAY)
    return full * (0.75 + 0.25 * spread)
