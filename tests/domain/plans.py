"""Outputs of the four phases as an agent hands them in: one by hand, and a strategy for many that pass."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

Outputs = dict[str, dict[str, Any]]

FILES = frozenset({"README.md", "src", "src/counter.py", "src/old.py", "tests", "tests/test_counter.py"})


def exists(path: str) -> bool:
    return path in FILES


EXPLORE: dict[str, Any] = {
    "project_kind": "A small library",
    "languages": [{"name": "Python", "version": "3.12"}],
    "frameworks": [{"name": "pytest", "version": None}],
    "structure": "src holds the code, tests its tests.",
    "key_files": [
        {"path": "src/counter.py", "purpose": "Counts."},
        {"path": "tests/", "purpose": "All tests."},
    ],
    "conventions": {
        "naming": "snake_case for functions",
        "tests": "pytest, one file per module",
        "style": "ruff with its defaults",
    },
    "setup": {"command": "pip install -e .", "worked": True, "notes": ""},
    "test": {"command": "pytest -q", "worked": True, "notes": "12 passed"},
    "related_code": [{"path": "src/old.py", "why": "Does the same, slowly."}],
    "open_questions": [{"id": "Q1", "question": "How large may n be?", "blocking": False}],
    "scope_in": ["Counting"],
    "scope_out": ["A command line"],
}
REQUIREMENTS: dict[str, Any] = {
    "requirements": [
        {
            "id": "R1",
            "statement": "WHEN count(n, k) is called, THE library SHALL return the exact number of subsets.",
            "criteria": [
                {"id": "R1.1", "text": "count(50, 25) is 126410606437752"},
                {"id": "R1.2", "text": "count(5, 0) is 1"},
            ],
        },
        {
            "id": "R2",
            "statement": "IF k is negative, THEN THE library SHALL raise ValueError.",
            "criteria": [{"id": "R2.1", "text": "count(5, -1) raises ValueError"}],
        },
    ],
    "assumptions": ["n stays below 10,000."],
    "out_of_scope": ["Floating-point results"],
}
DESIGN: dict[str, Any] = {
    "approach": "Multiply and divide step by step, so that no factorial is needed.",
    "components": [
        {
            "name": "counter",
            "purpose": "Computes the number.",
            "files": [
                {"path": "src/counter.py", "change": "modify"},
                {"path": "tests/test_binomial.py", "change": "create"},
            ],
            "requirements": ["R1", "R2"],
        }
    ],
    "data_changes": [],
    "interface_changes": ["New function count(n, k)"],
    "error_handling": "ValueError for a negative k.",
    "security": "Reads no input of strangers.",
    "test_strategy": "One test for each criterion, run by pytest.",
    "alternatives": [{"option": "math.comb", "refused_because": "The issue asks for our own."}],
}
TASKS: dict[str, Any] = {
    "tasks": [
        {
            "id": "T1",
            "title": "Add count(n, k)",
            "description": "Write count in src/counter.py so that it multiplies and divides step by step, with tests.",
            "kind": "implementation",
            "files": [
                {"path": "src/counter.py", "change": "modify"},
                {"path": "tests/test_binomial.py", "change": "create"},
            ],
            "criteria": ["R1.1", "R1.2"],
            "requirements": ["R1"],
            "depends_on": [],
            "estimate_hours": 2.0,
        },
        {
            "id": "T2",
            "title": "Refuse a negative k",
            "description": "Raise ValueError when k is negative, and add a test for it beside the others.",
            "kind": "implementation",
            "files": [
                {"path": "src/counter.py", "change": "modify"},
                {"path": "tests/test_binomial.py", "change": "modify"},
            ],
            "criteria": ["R2.1"],
            "requirements": ["R2"],
            "depends_on": ["T1"],
            "estimate_hours": 1.0,
        },
        {
            "id": "T3",
            "title": "Say so in the README",
            "description": "Name the function in README.md with the example from the issue, in one short paragraph.",
            "kind": "documentation",
            "files": [{"path": "README.md", "change": "modify"}],
            "criteria": [],
            "requirements": ["R1"],
            "depends_on": [],
            "estimate_hours": 0.5,
        },
    ]
}


def sample() -> Outputs:
    """A fresh copy each time: to be changed at will."""
    return deepcopy({"explore": EXPLORE, "requirements": REQUIREMENTS, "design": DESIGN, "tasks": TASKS})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=15,
)

words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=30).map(
    lambda text: f"word {text}"
)


@st.composite
def task_graphs(draw: st.DrawFn, max_tasks: int = 12) -> dict[str, list[str]]:
    """Any graph without a cycle, its tasks listed in any order."""
    count = draw(st.integers(1, max_tasks))
    keys = [f"T{number}" for number in range(1, count + 1)]
    edges = {
        key: draw(st.lists(st.sampled_from(keys[:place]), unique=True, max_size=4)) if place else []
        for place, key in enumerate(keys)
    }
    return {key: edges[key] for key in draw(st.permutations(keys))}


@st.composite
def plans(draw: st.DrawFn) -> Outputs:
    """Outputs that pass every gate, in any texts, with any graph of tasks."""
    outputs = sample()
    count = draw(st.integers(1, 5))
    requirements = []
    for number in range(1, count + 1):
        criteria = [
            {"id": f"R{number}.{index}", "text": draw(words)}
            for index in range(1, draw(st.integers(1, 3)) + 1)
        ]
        statement = f"WHEN {draw(words)} THE system SHALL {draw(words)}"
        requirements.append({"id": f"R{number}", "statement": statement, "criteria": criteria})
    ids = [item["id"] for item in requirements]
    edges = draw(task_graphs())
    tasks = [
        {
            "id": key,
            "title": draw(words),
            "description": draw(words),
            "kind": draw(
                st.sampled_from(["implementation", "test", "documentation", "refactor", "research"])
            ),
            "files": [
                {"path": f"src/{key}.py", "change": "create"},
                {"path": "README.md", "change": "modify"},
            ],
            "criteria": [],
            "requirements": draw(st.lists(st.sampled_from(ids), unique=True)),
            "depends_on": needs,
            "estimate_hours": draw(st.floats(0.25, 4)),
        }
        for key, needs in edges.items()
    ]
    for requirement in requirements:
        for criterion in requirement["criteria"]:
            draw(st.sampled_from(tasks))["criteria"].append(criterion["id"])
    outputs["requirements"]["requirements"] = requirements
    outputs["design"]["components"][0]["requirements"] = draw(st.lists(st.sampled_from(ids), unique=True))
    outputs["tasks"]["tasks"] = tasks
    return outputs
