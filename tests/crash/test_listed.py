"""Every point that the code names is listed, and every listed one is named: a new step or effect can't be forgotten."""

from __future__ import annotations

import re
from pathlib import Path

from app.domain.steps import StepName
from app.observability.crashpoints import COMMITS, EFFECTS, WEB_COMMITS, WEB_POINTS, WORKER_POINTS
from worker.effects import URGENCIES

ROOT = Path(__file__).resolve().parents[2]


def points_named_below(directory: Path) -> set[str]:
    named: set[str] = set()
    for path in directory.rglob("*.py"):
        for text in re.findall(r'crashpoint\(f?"([^"]+)"\)', path.read_text()):
            if text.startswith("{name}"):
                named |= {text.replace("{name}", step) for step in StepName}
            elif text.startswith("effect.{effect.kind}"):
                named |= {text.replace("{effect.kind}", kind) for kind in URGENCIES}
            else:
                named.add(text)
    return named


def test_points_in_the_code_and_points_in_the_list_are_the_same() -> None:
    assert points_named_below(ROOT / "worker") == set(WORKER_POINTS)
    assert points_named_below(ROOT / "app" / "web") == set(WEB_POINTS)


def test_names_are_not_shared() -> None:
    names = [*EFFECTS, *COMMITS, *WEB_COMMITS, *StepName]
    assert len(set(names)) == len(names)
