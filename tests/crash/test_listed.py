"""Every point that the code names is listed, and every listed one is named: a new step or effect can't be forgotten."""

from __future__ import annotations

import re
from pathlib import Path

from app.domain.steps import StepName
from worker.crashpoints import COMMITS, EFFECTS, POINTS

WORKER = Path(__file__).resolve().parents[2] / "worker"


def test_points_in_the_code_and_points_in_the_list_are_the_same() -> None:
    named: set[str] = set()
    for path in WORKER.rglob("*.py"):
        for text in re.findall(r'crashpoint\(f?"([^"]+)"\)', path.read_text()):
            if text.startswith("{name}"):
                named |= {text.replace("{name}", step) for step in StepName}
            elif text.startswith("effect.{effect.kind}"):
                named |= {text.replace("{effect.kind}", kind) for kind in ("labels", "notice")}
            else:
                named.add(text)
    assert named == set(POINTS)


def test_effects_and_commits_do_not_share_names() -> None:
    assert len({*EFFECTS, *COMMITS, *StepName}) == len(EFFECTS) + len(COMMITS) + len(StepName)
