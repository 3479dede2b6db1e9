"""How good an output looks that has passed: shown to people, never deciding. Pure.

Each phase has named checks with weights; a check gives points from 0 to 1, the score is their weighted mean.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sandbox_payload.wire.gates import dependencies
from sandbox_payload.wire.graph import stable_order
from sandbox_payload.wire.plan import PhaseName

Output = Mapping[str, Any]
Outputs = Mapping[str, Output]
Check = Callable[[Output, Outputs], float]


@dataclass(frozen=True)
class Score:
    """`value` from 0 to 1; `checks`: the points behind it, by name."""

    value: float
    checks: Mapping[str, float]


def score_output(phase: PhaseName, output: Output, earlier: Outputs) -> Score:
    """`output` as stored (normalized, passed by the gates), `earlier` those of the phases before. 1 for `sync`."""
    rows = CHECKS.get(phase, {})
    points = {name: round(min(1.0, max(0.0, check(output, earlier))), 3) for name, (_, check) in rows.items()}
    total = sum(weight for weight, _ in rows.values())
    value = sum(rows[name][0] * point for name, point in points.items()) / total if total else 1.0
    return Score(round(value, 3), points)


_EARS = re.compile(r"^(?:when|while|if|where|the)\b.*\bshall\b", re.IGNORECASE | re.DOTALL)
_CONCRETE = re.compile(r"\d|[\"'`“„«]")
_VAGUE = re.compile(
    r"\b(?:appropriate(?:ly)?|properly|as needed|user[- ]friendly|fast|robust|good|nice|etc|and so on|works? well)\b",
    re.IGNORECASE,
)


def _share(items: Iterable[bool], of_none: float = 0.0) -> float:
    """What part of `items` is true; `of_none` when there are none."""
    seen = list(items)
    return sum(seen) / len(seen) if seen else of_none


# explore


def _tests_tried(output: Output, _: Outputs) -> float:
    """A command that worked counts most; one that was tried and failed is still knowledge."""
    command = output["test"]
    if command["worked"] is None:
        return 0.25 if command["command"] else 0.0
    return 1.0 if command["worked"] and command["command"] else 0.6


def _setup_tried(output: Output, _: Outputs) -> float:
    return 0.0 if output["setup"]["worked"] is None and output["setup"]["command"] else 1.0


def _key_files(output: Output, _: Outputs) -> float:
    return len(output["key_files"]) / 3


def _conventions_named(output: Output, _: Outputs) -> float:
    return _share(len(text.split()) >= 3 for text in output["conventions"].values())


def _scope_drawn(output: Output, _: Outputs) -> float:
    return 0.5 * bool(output["scope_in"]) + 0.5 * bool(output["scope_out"])


def _versions_stated(output: Output, _: Outputs) -> float:
    return _share(
        (bool(item["version"]) for item in (*output["languages"], *output["frameworks"])), of_none=1.0
    )


# requirements


def _criteria_per_requirement(output: Output, _: Outputs) -> float:
    return _share(len(requirement["criteria"]) >= 2 for requirement in output["requirements"])


def _ears_forms(output: Output, _: Outputs) -> float:
    return _share(bool(_EARS.match(requirement["statement"])) for requirement in output["requirements"])


def _criteria_concrete(output: Output, _: Outputs) -> float:
    texts = [
        criterion["text"] for requirement in output["requirements"] for criterion in requirement["criteria"]
    ]
    return _share(bool(_CONCRETE.search(text)) and not _VAGUE.search(text) for text in texts)


def _failures_thought_of(output: Output, _: Outputs) -> float:
    """Whether a requirement says what happens when something goes wrong."""
    return float(any(re.match(r"if\b", item["statement"], re.IGNORECASE) for item in output["requirements"]))


def _assumptions_stated(output: Output, earlier: Outputs) -> float:
    """Open questions that nobody turned into assumptions are guesses that stay hidden."""
    questions = earlier.get(PhaseName.EXPLORE, {}).get("open_questions", ())
    stated = len(output["assumptions"])
    return stated / len(questions) if questions else 0.5 + 0.5 * bool(stated)


# design


def _alternatives_weighed(output: Output, _: Outputs) -> float:
    return float(bool(output["alternatives"]))


def _files_named(output: Output, _: Outputs) -> float:
    return _share(bool(component["files"]) for component in output["components"])


def _tests_planned(output: Output, _: Outputs) -> float:
    files = (file["path"] for component in output["components"] for file in component["files"])
    return 0.5 * (len(output["test_strategy"].split()) >= 5) + 0.5 * any(
        "test" in path.lower() for path in files
    )


def _requirements_designed(output: Output, earlier: Outputs) -> float:
    served = {key for component in output["components"] for key in component["requirements"]}
    asked = earlier.get(PhaseName.REQUIREMENTS, {}).get("requirements", ())
    return _share((requirement["id"] in served for requirement in asked), of_none=1.0)


# tasks


def _sized_well(output: Output, _: Outputs) -> float:
    return _share(0.5 <= task["estimate_hours"] <= 4 for task in output["tasks"])


def _described(output: Output, _: Outputs) -> float:
    return _share(len(task["description"].split()) >= 12 for task in output["tasks"])


def _covered_once(output: Output, _: Outputs) -> float:
    """A criterion that two tasks claim is done twice, or by nobody."""
    claimed = Counter(key for task in output["tasks"] for key in task["criteria"])
    return _share(count == 1 for count in claimed.values())


def _parallelism(output: Output, _: Outputs) -> float:
    """1 when nothing waits, 0 when each task waits for the one before it; a single task has nothing to wait for."""
    edges = dependencies(output["tasks"])
    depth: dict[str, int] = {}
    for key in stable_order(edges):
        depth[key] = 1 + max((depth.get(need, 0) for need in edges[key]), default=0)
    longest = max(depth.values(), default=1)
    return 1.0 if len(edges) <= 1 else (len(edges) - longest) / (len(edges) - 1)


def _tests_present(output: Output, _: Outputs) -> float:
    return float(
        any(
            task["kind"] == "test" or any("test" in file["path"].lower() for file in task["files"])
            for task in output["tasks"]
        )
    )


CHECKS: Mapping[PhaseName, Mapping[str, tuple[float, Check]]] = MappingProxyType(
    {
        PhaseName.EXPLORE: {
            "tests_tried": (3, _tests_tried),
            "setup_tried": (1, _setup_tried),
            "key_files": (2, _key_files),
            "conventions_named": (2, _conventions_named),
            "scope_drawn": (1, _scope_drawn),
            "versions_stated": (1, _versions_stated),
        },
        PhaseName.REQUIREMENTS: {
            "criteria_per_requirement": (2, _criteria_per_requirement),
            "criteria_concrete": (2, _criteria_concrete),
            "ears_forms": (2, _ears_forms),
            "failures_thought_of": (1, _failures_thought_of),
            "assumptions_stated": (1, _assumptions_stated),
        },
        PhaseName.DESIGN: {
            "requirements_designed": (3, _requirements_designed),
            "files_named": (2, _files_named),
            "tests_planned": (2, _tests_planned),
            "alternatives_weighed": (1, _alternatives_weighed),
        },
        PhaseName.TASKS: {
            "sized_well": (2, _sized_well),
            "described": (2, _described),
            "covered_once": (2, _covered_once),
            "tests_present": (2, _tests_present),
            "parallelism": (1, _parallelism),
        },
    }
)
"""Phase to check to its weight and what it computes."""
