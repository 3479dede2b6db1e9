"""The pull request: title, body and start commit. Only the marked section of a body is ours to change. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from app.domain.markers import BODY_END, body_begin
from app.domain.notices import PAUSED_HINT
from app.domain.render import status_missing
from app.domain.render_evidence import evidence_lines, outcome_of_tests
from app.domain.render_planning import task_list
from app.domain.sanitize import (
    MAX_BODY,
    cut_text,
    escape_markdown,
    neutralize_agent_text,
    sanitize_line,
    size,
)
from app.domain.view import Outcome, SpecView, TaskView

MAX_TITLE = 250
_SECTION_ROOM = 20_000
_TASKS_ROOM = 12_000
_EVIDENCE_ROOM = 14_000
_ADVICE = "Please review it as you would review a stranger's work."
_TEMPLATE_NAMES = ("pull_request_template.md", "pull_request_template.txt", "pull_request_template")
TEMPLATE_DIRECTORIES = (".github", "", "docs")
"""Where GitHub looks for the default template; the folder PULL_REQUEST_TEMPLATE/ is used only when asked for."""


def find_template(names: tuple[str, ...]) -> str | None:
    """The default pull-request template among the file names of one directory, whatever their case."""
    by_fold = {name.casefold(): name for name in sorted(names)}
    return next((by_fold[name] for name in _TEMPLATE_NAMES if name in by_fold), None)


def render_pull_title(view: SpecView) -> str:
    return sanitize_line(view.title, MAX_TITLE) or f"Work on issue #{view.issue_number}"


def render_start_message(view: SpecView) -> str:
    """Of the empty commit that starts the branch. It names the issue without closing it, and the spec, by which the
    branch is known again when the database has forgotten it.
    """
    why = "An empty commit, so that the pull request can be opened."
    return f"Start work on issue {view.issue_number}\n\n{why}\n\nIssuewright-Spec: {view.spec_id}"


def render_section(view: SpecView) -> str:
    """Our part of the body, between its markers."""
    done, tasks = view.outcome is Outcome.DONE, view.tasks
    lines = [body_begin(view.spec_id)]
    if done:
        text = next((task.summary for task in reversed(view.tasks) if task.summary), "")
        lines += ["### Summary", "", neutralize_agent_text(text, _SECTION_ROOM - 4000) or "The work is done."]
    elif view.outcome is not None and view.state in {"failed", "cancelled"}:
        how = "failed" if view.state == "failed" else "was cancelled"
        lines += ["### Not finished", "", f"The work {how}. The issue says why, and how to take it up again."]
    elif view.outcome is Outcome.NO_CHANGES:
        lines += [
            "### Nothing to change",
            "",
            "The agent ended without changing a file. The issue says more.",
        ]
    else:
        where = status_missing(view) or "How far it is, and which tasks are done, stands on the issue."
        # Written anew only when the work is paused or goes on: what else changes is not said.
        tasks = tuple(replace(task, state="pending") for task in tasks)
        paused = view.state == "paused"
        title, text = ("Paused", PAUSED_HINT) if paused else ("Work in progress", "An agent works on this.")
        lines += [f"### {title}", "", f"{text} {where}"]
    lines += ["", "### Tasks", ""]
    lines += _tasks(view, tasks)
    for part in (evidence_lines(view, _EVIDENCE_ROOM), outcome_of_tests(view)):
        lines += ["", *part] if part else []
    lines += ["", f"Closes #{view.issue_number}"]
    if view.base_branch and view.default_branch and view.base_branch != view.default_branch:
        lines += ["", f"<sub>Merging into `{view.base_branch}` closes the issue through this App.</sub>"]
    lines += [
        "",
        f"<sub>Made by Issuewright, asked for by {escape_markdown(view.labeler_login)}. {_ADVICE}</sub>",
        BODY_END,
    ]
    return "\n".join(lines)


def _tasks(view: SpecView, tasks: Sequence[TaskView]) -> list[str]:
    if view.is_planned:
        return task_list(tasks, _TASKS_ROOM)
    ticks = ("x" if task.state == "completed" else " " for task in tasks)
    titles = (escape_markdown(sanitize_line(task.title, 200)) for task in tasks)
    return [f"- [{tick}] {title}" for tick, title in zip(ticks, titles, strict=True)]


def render_pull_body(view: SpecView, template: str | None) -> str:
    """The first body: our section, then the repository's own template, cut when the two do not fit."""
    section = render_section(view)
    if not template:
        return section
    room = MAX_BODY - size(section) - 2
    text = template.replace("\r\n", "\n").strip()
    return f"{section}\n\n{cut_text(_without_markers(text), room)}"


def replace_section(body: str, view: SpecView) -> str:
    """The body with only our section renewed; what people wrote, ticked or moved stays. A removed section comes back
    at the end.
    """
    section = render_section(view)
    pattern = re.compile(re.escape(body_begin(view.spec_id)) + r".*?" + re.escape(BODY_END), re.DOTALL)
    body = body.replace("\r\n", "\n")
    if pattern.search(body):
        renewed = pattern.sub(lambda _match: section, body, count=1)
    else:
        renewed = f"{body.rstrip()}\n\n{section}"
    if size(renewed) <= MAX_BODY:
        return renewed
    rest = pattern.sub("", body, count=1).strip()
    return f"{section}\n\n{cut_text(rest, MAX_BODY - size(section) - 2)}"


def _without_markers(text: str) -> str:
    return text.replace("<!-- issuewright:", "<!-- ")
