"""A small plan, as the phases hand it in."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

_OUTPUTS: dict[str, dict[str, Any]] = {
    "requirements": {
        "requirements": [
            {
                "id": "R1",
                "statement": "WHEN `choose(n, k)` is called, THE library SHALL return the exact number.",
                "criteria": [{"id": "R1.1", "text": "`choose(4, 2)` is 6"}],
            },
            {"id": "R2", "statement": "IF k > n, THE library SHALL raise.", "criteria": []},
        ],
        "assumptions": ["Whole numbers only."],
        "out_of_scope": ["Fractions."],
    },
    "design": {
        "approach": "One module.",
        "components": [
            {
                "name": "choose",
                "purpose": "Counts.",
                "files": [{"path": "kit/choose.py", "change": "create"}],
                "requirements": ["R1"],
            }
        ],
        "data_changes": [],
        "interface_changes": ["`kit.choose`"],
        "error_handling": "ValueError.",
        "security": "None needed.",
        "test_strategy": "pytest.",
        "alternatives": [{"option": "math.comb", "refused_because": "Not wanted."}],
    },
    "tasks": {
        "tasks": [
            {
                "id": "T1",
                "title": "Add choose",
                "description": "Write it.\n\n```python\ndef choose(n, k): ...\n```",
                "kind": "implementation",
                "files": [{"path": "kit/choose.py", "change": "create"}],
                "criteria": ["R1.1"],
                "requirements": ["R1"],
                "depends_on": [],
                "estimate_hours": 1.5,
            },
            {
                "id": "T2",
                "title": "Tell of it",
                "description": "In the README.",
                "kind": "documentation",
                "files": [{"path": "README.md", "change": "modify"}],
                "criteria": [],
                "requirements": ["R1"],
                "depends_on": ["T1"],
                "estimate_hours": 1,
            },
        ]
    },
}


def sample_outputs() -> dict[str, dict[str, Any]]:
    return deepcopy(_OUTPUTS)
