"""Which failed deliveries to have sent again. Pure: GitHub's own listing says all that the decision needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from app.domain.ports import HookDelivery

REFUSED_FOR_GOOD = frozenset({400, 413})
"""What our webhook answers to content it will never take. Anything else may be mended: the server, a proxy, a secret."""
MAX_REDELIVERIES = 3
"""Of one GUID: something may fail each time for what is in it."""


@dataclass(frozen=True)
class Missed:
    """`wanted`: to be sent again now, oldest first. `open_since`: the first attempt of the oldest one that is wanted or
    may still become so; None when there is none.
    """

    wanted: tuple[HookDelivery, ...]
    open_since: datetime | None


def decide_missed(attempts: Iterable[HookDelivery], stored: frozenset[str]) -> Missed:
    """`attempts` in any order; `stored`: GUIDs that we have.

    A failed delivery is wanted once. What failed again is wanted again only when something else has got through
    since: while nothing does, asking is of no use, and a delivery may not be used up by that.
    """
    of_guid: dict[str, list[HookDelivery]] = {}
    last_success: datetime | None = None
    for one in attempts:
        of_guid.setdefault(one.guid, []).append(one)
        if one.succeeded and (last_success is None or one.delivered_at > last_success):
            last_success = one.delivered_at
    wanted: list[HookDelivery] = []
    open_since: datetime | None = None
    for guid, tries in of_guid.items():
        newest = max(tries, key=lambda one: (one.delivered_at, one.delivery_id))
        if guid in stored or _is_settled(tries, newest):
            continue
        first_at = min(one.delivered_at for one in tries)
        open_since = first_at if open_since is None else min(open_since, first_at)
        gets_through = last_success is not None and last_success > newest.delivered_at
        if gets_through or not any(one.redelivery for one in tries):
            wanted.append(newest)
    return Missed(tuple(sorted(wanted, key=lambda one: (one.delivered_at, one.delivery_id))), open_since)


def _is_settled(tries: list[HookDelivery], newest: HookDelivery) -> bool:
    redeliveries = sum(one.redelivery for one in tries)
    refused = redeliveries > 0 and newest.status_code in REFUSED_FOR_GOOD
    return any(one.succeeded for one in tries) or refused or redeliveries >= MAX_REDELIVERIES
