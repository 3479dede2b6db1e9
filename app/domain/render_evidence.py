"""What shows that the work is whole: a table of acceptance criteria, and how the test command went. Pure."""

from __future__ import annotations

from app.domain.plan_text import code, inline
from app.domain.sanitize import size
from app.domain.view import CriterionView, SpecView

_CELL = 300
_MARKS = {True: "✅ yes", False: "❌ no", None: "❔ not shown"}


def evidence_lines(view: SpecView, room: int) -> list[str]:
    """For a pull request's body, whole rows within `room` characters; nothing for a flow without criteria."""
    if not view.criteria:
        return []
    met = sum(one.met is True for one in view.criteria)
    lines = [
        "### Acceptance criteria", "",
        f"{met} of {len(view.criteria)} met, as the agent of the closing task found; look for yourself.", "",
        "| Criterion | Met | Evidence |", "|---|---|---|",
    ]  # fmt: skip
    left = room - size("\n".join(lines)) - 100
    for number, one in enumerate(view.criteria):
        row = _row(one)
        left -= size(row) + 1
        if left < 0:
            hidden = len(view.criteria) - number
            return [*lines, "", f"… and {hidden} more: `issuewright specs show {view.spec_id}`."]
        lines.append(row)
    return lines


def _row(one: CriterionView) -> str:
    return f"| {_cell(f'{one.key}: {one.text}')} | {_MARKS[one.met]} | {_cell(one.evidence)} |"


def _cell(text: str) -> str:
    # A bar ends a cell even inside inline code.
    return inline(text, _CELL).replace("\\|", "|").replace("|", "\\|")


def outcome_of_tests(view: SpecView) -> list[str]:
    """How the repository's own test command went after the last task; nothing when none is known."""
    test = view.test
    if test is None:
        return []
    if test.exit_code == 0:
        said = f"passed in {_duration(test.seconds)}"
    elif test.exit_code is None:
        said = f"was cut after {_duration(test.seconds)}, at its time limit"
    else:
        said = f"failed with exit code {test.exit_code}"
    return ["### Tests", "", f"{code(test.command)} {said}."]


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
