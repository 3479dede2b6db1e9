"""Who may start a sandbox now, and who waits for what. Pure.

First come, first served, but fair between repositories: nobody's second sandbox goes before another's first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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
    SPEC_BUDGET = "spec_budget"
    DAY_BUDGET = "day_budget"


@dataclass(frozen=True)
class Supply:
    """What the operator grants; None is no limit. Budgets in USD: of one spec, of one repository in one day (UTC)."""

    max_sandboxes: int | None = None
    spec_budget_usd: float | None = None
    day_budget_usd: float | None = None


@dataclass(frozen=True)
class Waiting:
    """A spec that wants a sandbox, since `queued_at`."""

    spec_id: str
    repo_id: int
    queued_at: datetime


@dataclass(frozen=True)
class Taken:
    """What live sandboxes may still spend counts as spent. `sandboxes`: live ones by repository, all specs together."""

    sandboxes: Mapping[int, int]
    spec_usd: float
    day_usd: float


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
    """Whether `me` may start a sandbox of `wanted_usd`. `queue`: those that wait for a free sandbox, with or without me."""
    left_of_spec = _left(supply.spec_budget_usd, taken.spec_usd, wanted_usd)
    if left_of_spec < wanted_usd * LEAST_SHARE:
        return Queued(Shortage.SPEC_BUDGET)
    left_of_day = _left(supply.day_budget_usd, taken.day_usd, wanted_usd)
    if left_of_day < wanted_usd * LEAST_SHARE:
        return Queued(Shortage.DAY_BUDGET)
    if supply.max_sandboxes is not None:
        everybody = {one.spec_id: one for one in (me, *queue)}
        place = order_queue(list(everybody.values()), taken.sandboxes).index(me.spec_id)
        if place >= supply.max_sandboxes - sum(taken.sandboxes.values()):
            return Queued(Shortage.SANDBOXES, place + 1)
    return Granted(min(wanted_usd, left_of_spec, left_of_day))


def _left(limit_usd: float | None, taken_usd: float, wanted_usd: float) -> float:
    return wanted_usd if limit_usd is None else limit_usd - taken_usd


_WAITS = {
    Shortage.SANDBOXES: "a free sandbox",
    Shortage.PROVIDER: "room at the sandbox provider",
    Shortage.KEY: (
        "the operator, whose key the sandbox provider refuses: `issuewright doctor` says more, and the work goes on by "
        "itself once the key is mended"
    ),
    Shortage.SPEC_BUDGET: "more budget: what this issue may cost is used up (the operator can raise SPEC_BUDGET_USD)",
    Shortage.DAY_BUDGET: (
        "the next day (UTC): what this repository may spend in a day is used up (the operator can raise "
        "REPOSITORY_DAY_BUDGET_USD)"
    ),
}


def describe_wait(reason: str | None, place: int | None) -> str:
    """What people are told that a spec waits for: `a free sandbox (place 2 in the queue)`."""
    if reason not in set(Shortage):
        return ""
    text = _WAITS[Shortage(reason)]
    return f"{text} (place {place} in the queue)" if place else text
