"""Order in a graph of dependencies. Pure; `edges` maps each key to the keys it needs, in the order of the list.

What an edge names beside the keys of `edges` is ignored: whoever checks references says so elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import heappop, heappush

Edges = Mapping[str, Collection[str]]


def stable_order(edges: Edges) -> list[str]:
    """Every key after what it needs; of those that may come next, the one that stands first in the list.

    What is in a cycle, or needs something that is, is left out.
    """
    keys = list(edges)
    place = {key: index for index, key in enumerate(keys)}
    missing = {key: len({need for need in edges[key] if need in place}) for key in keys}
    needed_by: dict[str, list[str]] = {key: [] for key in keys}
    for key in keys:
        for need in {need for need in edges[key] if need in place}:
            needed_by[need].append(key)
    ready = [place[key] for key in keys if not missing[key]]  # ascending, so already a heap
    order: list[str] = []
    while ready:
        key = keys[heappop(ready)]
        order.append(key)
        for follower in needed_by[key]:
            missing[follower] -= 1
            if not missing[follower]:
                heappush(ready, place[follower])
    return order


def find_cycles(edges: Edges) -> list[list[str]]:
    """Cycles that share no key, at least one when there is any: each key needs the next, the last needs the first."""
    ordered = set(stable_order(edges))
    # Each key that could not be ordered needs another such key, so a walk along them must come back to itself.
    left = [key for key in edges if key not in ordered]
    stuck = set(left)
    seen: set[str] = set()
    cycles: list[list[str]] = []
    for start in left:
        path: dict[str, int] = {}
        key = start
        while key not in seen and key not in path:
            path[key] = len(path)
            key = next(need for need in edges[key] if need in stuck)
        if key in path:
            cycles.append(list(path)[path[key] :])
        seen.update(path)
    return cycles
