"""The issue of one task, below the issue that is worked on. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.markers import task_marker
from app.domain.plan_text import code, inline, prose
from app.domain.sanitize import sanitize_line

_MAX_TITLE = 200
_MAX_FILES = 30


@dataclass(frozen=True)
class SubIssue:
    marker: str
    title: str
    body: str


def render_sub_issue(
    spec_id: str, parent: int, task: Mapping[str, Any], criteria: Mapping[str, str]
) -> SubIssue:
    """`task` is an item of the plan, `criteria` the texts of the plan's acceptance criteria by id."""
    marker = task_marker(spec_id, task["id"])
    files = [f"- {code(one['path'])} ({one['change']})" for one in task["files"][:_MAX_FILES]]
    wanted = [f"- **{one}** {inline(criteria[one])}" for one in task["criteria"] if one in criteria]
    blocks = [
        marker,
        f"Task {task['id']} of the plan for #{parent}. It is closed when the task is done.",
        prose(task["description"], 4_000),
        *_list("Done when", wanted),
        *_list("Files", files),
        *([f"After {', '.join(task['depends_on'])}."] if task["depends_on"] else []),
    ]
    return SubIssue(
        marker,
        sanitize_line(f"{task['id']}: {task['title']}", _MAX_TITLE),
        "\n\n".join(block for block in blocks if block),
    )


def _list(title: str, lines: Sequence[str]) -> list[str]:
    return [f"**{title}**\n" + "\n".join(lines)] if lines else []
