"""What the agent is told. Texts stand in texts/*.md; issue text passes the sanitising boundary exactly once, here."""

from __future__ import annotations

from importlib.resources import files
from string import Template

from app.domain.sanitize import cut_text, sanitize_line, sanitize_text
from app.domain.view import SpecView

MAX_ISSUE = 100_000
"""Characters of issue text in a prompt; GitHub's own limit is below it, so this only bounds surprises."""


def _text(name: str) -> str:
    return (files("app.domain") / "texts" / name).read_text(encoding="utf-8")


def render_system() -> str:
    return _text("system.md")


def render_prompt(view: SpecView, repository: str) -> str:
    """The first message of a quick task."""
    body = sanitize_text(view.body).strip()
    # The end line can't be forged: the issue number stands in it, and the same words are broken up in the text.
    body = body.replace("END ISSUE", "END\u00a0ISSUE").replace("BEGIN ISSUE", "BEGIN\u00a0ISSUE")
    return Template(_text("prompt.md")).substitute(
        title=sanitize_line(view.title, 300) or f"issue {view.issue_number}",
        repository=repository,
        branch=view.branch or "",
        base=view.base_branch or "",
        issue=view.issue_number,
        body=cut_text(body, MAX_ISSUE) or "(The issue has no text: its title is the task.)",
    )


def render_continue(view: SpecView) -> str:
    """The first message of a sandbox that goes on with a saved session."""
    return (
        "The sandbox you worked in has ended and this is a new one. What had been committed is in the work tree. "
        f"Check its state with git, then go on with the task: {sanitize_line(view.title, 300)}"
    )
