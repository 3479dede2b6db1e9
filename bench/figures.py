"""What a measurement hands back: figures, each with its goal where the product has one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

_HOLDS: Mapping[str, Callable[[float, float], bool]] = {"at most": operator.le, "at least": operator.ge}


@dataclass(frozen=True)
class Figure:
    """`value` in `unit` (`x`: a ratio within this run). `goal` None: it only explains another figure."""

    name: str
    value: float
    unit: str
    bound: Literal["at most", "at least"] = "at most"
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else _HOLDS[self.bound](self.value, self.goal)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}


def middle(values: Sequence[float], digits: int = 3) -> float:
    """The median: one disturbed round does not count."""
    return round(median(values), digits)


def render_table(figures: Sequence[Figure]) -> str:
    rows = [("figure", "value", "goal", "")]
    for one in figures:
        goal = "" if one.goal is None else f"{one.bound} {one.goal:g}"
        verdict = {None: "", True: "met", False: "MISSED"}[one.met]
        rows.append((one.name, f"{one.value:g} {one.unit}", goal, verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{name:<{widths[0]}}  {value:>{widths[1]}}  {goal:<{widths[2]}}  {verdict}".rstrip()
        for name, value, goal, verdict in rows
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
