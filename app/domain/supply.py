"""Who may start a sandbox now, and who waits for what. Pure.

First come, first served, but fair between repositories: nobody's second sandbox goes before another's first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

LEAST_SHARE = 0.1
"""Of the budget that a sandbox is meant to have: with less than this it could not do anything worth starting."""


class Shortage(StrEnum):
    """What a spec waits for before its next sandbox is made."""

    SANDBOXES = "sandboxes"
    PROVIDER = "provider"
    """The provider has no room: its quota is used up."""
    KEY = "key"
    """The provider refuses the operator's key."""
    HAND_IN = "hand_in"
    """The provider has no room to start a sandbox once more that stands still."""
    APP = "app"
    """The web process is away, which takes in what an ended sandbox had ready."""
    LINK = "link"
    """The web process answers neither the next sandbox nor the worker."""
    SPEC_BUDGET = "spec_budget"
    SPEC_BUDGET_HELD = "spec_budget_held"
    """Agents at work may still spend it: what they leave is free when they end."""
    DAY_BUDGET = "day_budget"
    DAY_BUDGET_HELD = "day_budget_held"


FOR_A_SANDBOX = frozenset({Shortage.SANDBOXES})
FOR_THE_DAY = frozenset({Shortage.DAY_BUDGET, Shortage.DAY_BUDGET_HELD})
"""What is waited for in a queue, by queue: whoever came first is served first."""


@dataclass(frozen=True)
class Supply:
    """What the operator grants; None is no limit. Budgets in USD: of one spec, of one repository in one day (UTC)."""

    max_sandboxes: int | None = None
    spec_budget_usd: float | None = None
    day_budget_usd: float | None = None


@dataclass(frozen=True)
class Waiting:
    """A spec that wants a sandbox, since `queued_at`. `shortage` None: it asks for the first time."""

    spec_id: str
    repo_id: int
    queued_at: datetime
    shortage: Shortage | None = None


def day_of(at: datetime) -> datetime:
    """When the day (UTC) began, in which money that is spent at that time counts."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@dataclass(frozen=True)
class Spent:
    """In USD. `held_usd`: what live sandboxes may still spend, which is nobody else's until they end."""

    usd: float = 0.0
    held_usd: float = 0.0


@dataclass(frozen=True)
class Taken:
    """`sandboxes`: live ones by repository, all specs together. `spec` and `day`: of the spec that asks, and of its
    repository today.
    """

    sandboxes: Mapping[int, int]
    spec: Spent
    day: Spent


@dataclass(frozen=True)
class Granted:
    """A sandbox may be made, with this budget."""

    budget_usd: float


@dataclass(frozen=True)
class Queued:
    """Not now. `place` counts from 1; 0 where nobody is served before."""

    shortage: Shortage
    place: int = 0


def order_queue(waiting: Sequence[Waiting], live: Mapping[int, int]) -> list[str]:
    """The ids of those that wait, in the order in which they will be served: by how many sandboxes their repository
    would have before it, then by time.
    """
    ahead: Counter[int] = Counter(live)
    turns: list[tuple[int, datetime, str]] = []
    for one in sorted(waiting, key=lambda each: (each.queued_at, each.spec_id)):
        turns.append((ahead[one.repo_id], one.queued_at, one.spec_id))
        ahead[one.repo_id] += 1
    return [spec_id for _, _, spec_id in sorted(turns)]


def decide_grant(
    me: Waiting, queue: Sequence[Waiting], taken: Taken, supply: Supply, wanted_usd: float
) -> Granted | Queued:
    """Whether `me` may start a sandbox of `wanted_usd`. `queue`: those that wait, with or without me."""
    # Where a whole limit is less than a sandbox usually has, that is what one gets.
    limits = [one for one in (supply.spec_budget_usd, supply.day_budget_usd) if one is not None]
    wanted = min([wanted_usd, *limits])
    least = wanted * LEAST_SHARE
    left_of_spec = _left(supply.spec_budget_usd, taken.spec, wanted)
    if left_of_spec < least:
        held = left_of_spec + taken.spec.held_usd >= least
        return Queued(Shortage.SPEC_BUDGET_HELD if held else Shortage.SPEC_BUDGET)
    left_of_day = _left(supply.day_budget_usd, taken.day, wanted)
    if supply.day_budget_usd is not None:
        ahead = _ahead_of(me, queue)
        held = left_of_day + taken.day.held_usd >= least
        left_of_day -= ahead * wanted
        if left_of_day < least:
            return Queued(Shortage.DAY_BUDGET_HELD if held else Shortage.DAY_BUDGET, ahead + 1)
    if supply.max_sandboxes is not None:
        place = order_queue(_line_up(me, queue, FOR_A_SANDBOX), taken.sandboxes).index(me.spec_id)
        if place >= supply.max_sandboxes - sum(taken.sandboxes.values()):
            return Queued(Shortage.SANDBOXES, place + 1)
    return Granted(min(wanted, left_of_spec, left_of_day))


def _left(limit_usd: float | None, spent: Spent, wanted_usd: float) -> float:
    return wanted_usd if limit_usd is None else limit_usd - spent.usd - spent.held_usd


def _line_up(me: Waiting, queue: Sequence[Waiting], which: Collection[Shortage]) -> list[Waiting]:
    """Those that wait for the same, and `me`: last, unless it waits for that already."""
    mine = me if me.shortage in which else replace(me, queued_at=datetime.max.replace(tzinfo=UTC))
    return [*(one for one in queue if one.shortage in which and one.spec_id != me.spec_id), mine]


def _ahead_of(me: Waiting, queue: Sequence[Waiting]) -> int:
    """How many of the same repository have waited longer for its money of the day."""
    ours = [one for one in _line_up(me, queue, FOR_THE_DAY) if one.repo_id == me.repo_id]
    in_order = sorted(ours, key=lambda one: (one.queued_at, one.spec_id))
    return [one.spec_id for one in in_order].index(me.spec_id)


_WAITS = {
    Shortage.SANDBOXES: "a free sandbox",
    Shortage.PROVIDER: "room at the sandbox provider",
    Shortage.KEY: (
        "the operator, whose key the sandbox provider refuses: `issuewright doctor` says more, and the work goes on by "
        "itself once the key is mended"
    ),
    Shortage.HAND_IN: "room at the sandbox provider to start a sandbox once more, for what its agent had ready when it was stopped",
    Shortage.APP: "the operator's web process, which can't be reached and is to take in what its agent had ready when it ended",
    Shortage.LINK: "the operator's web process, which answers neither the next sandbox nor the worker",
    Shortage.SPEC_BUDGET: "more budget: what this issue may cost is used up (the operator can raise SPEC_BUDGET_USD)",
    Shortage.SPEC_BUDGET_HELD: "another agent of this issue to end: the rest of what the issue may cost is set aside for it",
    Shortage.DAY_BUDGET: (
        "the next day (UTC), since what this repository may spend in a day is used up; the operator can raise "
        "REPOSITORY_DAY_BUDGET_USD"
    ),
    Shortage.DAY_BUDGET_HELD: (
        "other agents of this repository to end, for whom the rest of what it may spend today (UTC) is set aside; the "
        "operator can raise REPOSITORY_DAY_BUDGET_USD"
    ),
}


def parse_shortage(reason: str | None) -> Shortage | None:
    """As it is stored. A word of another release counts as none."""
    return Shortage(reason) if reason in set(Shortage) else None


def is_same_queue(one: Shortage | None, other: Shortage) -> bool:
    """Whether whoever waits for the other now keeps the time since when it has waited for the one."""
    return one is other or {one, other} <= FOR_THE_DAY


def describe_wait(reason: str | None, place: int | None) -> str:
    """What people are told that a spec waits for: `a free sandbox (place 2 in the queue)`."""
    shortage = parse_shortage(reason)
    if shortage is None:
        return ""
    text = _WAITS[shortage]
    return f"{text} (place {place} in the queue)" if place else text
