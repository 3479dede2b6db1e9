"""What the agent is told. Texts stand in texts/*.md; issue text passes the sanitising boundary exactly once, here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from string import Template

from app.domain.sanitize import cut_text, sanitize_line
from app.domain.seen import sanitize_markdown
from app.domain.view import SpecView

MAX_ISSUE = 100_000
"""Characters of issue text in a prompt; GitHub's own limit is below it, so this only bounds surprises."""

_FRAME_WORDS = re.compile(r"\b(BEGIN|END)[ \t]+(ISSUE|PLAN)\b")


def read_text(name: str) -> str:
    """One of texts/*.md."""
    return (files("app.domain") / "texts" / name).read_text(encoding="utf-8")


def render_system() -> str:
    return read_text("system.md")


def frame(kind: str, number: int, text: str) -> str:
    """Text of others between two lines that say where it begins and ends: `kind` is ISSUE or PLAN.

    The lines can't be forged: the same words are broken up in the text, whichever frame they mean.
    """
    inside = _FRAME_WORDS.sub("\\g<1>\u00a0\\g<2>", text)
    return f"BEGIN {kind} {number}\n{inside}\nEND {kind} {number}"


def frame_issue(view: SpecView, limit: int = MAX_ISSUE) -> str:
    """The issue's text as it stood when it was labeled, framed; at most `limit` characters of it."""
    body = cut_text(sanitize_markdown(view.body).strip(), limit)
    return frame("ISSUE", view.issue_number, body or "(The issue has no text: its title is the task.)")


def issue_title(view: SpecView) -> str:
    return sanitize_line(view.title, 300) or f"issue {view.issue_number}"


def render_prompt(view: SpecView, repository: str) -> str:
    """The first message of a quick task."""
    return Template(read_text("prompt.md")).substitute(
        title=issue_title(view),
        repository=repository,
        branch=view.branch or "",
        base=view.base_branch or "",
        issue=frame_issue(view),
    )


def render_continue(view: SpecView) -> str:
    """The first message of a sandbox that goes on with a saved session."""
    return (
        "The sandbox you worked in has ended and this is a new one. What had been committed is in the work tree. "
        f"Check its state with git, then go on with the task: {sanitize_line(view.title, 300)}"
    )


def render_anew(view: SpecView, title: str) -> str:
    """The first message of a sandbox that goes on with a session whose work is on a branch that people gave up."""
    return (
        "The pull request of your earlier work was closed, or its branch deleted, and somebody asked for the work to be "
        f"done again. This is a new sandbox on a new branch, {view.branch or ''}: nothing of what you did for this task is "
        "in it. Look at its state with git and think of what may have been wrong with the first try, then do the task "
        f"again: {sanitize_line(title, 300)}"
    )


def render_conflict(view: SpecView, title: str, paths: Sequence[str]) -> str:
    """The first message of a sandbox that goes on with a session whose result could not be merged."""
    named = "\n".join(f"- {sanitize_line(path, 200)}" for path in paths)
    return (
        f"Your result of the task {sanitize_line(title, 300)!r} could not be merged into {view.branch or ''}: other tasks "
        f"of the plan changed the same places while you worked.\n\nConflicting:\n{named}\n\n"
        "This is a new sandbox on the branch as it stands now, without your commits. Look at what the others did there, "
        "then do your task again on top of it, keeping their work."
    )


def render_follow_up(view: SpecView) -> str:
    """The first message of a sandbox that goes on because somebody said something about finished work."""
    return (
        f"The work on {sanitize_line(view.title, 300)!r} is done and its pull request is open, on branch {view.branch or ''}. "
        "This is a new sandbox on that branch as it stands now. Somebody who may write to the repository has said "
        "something since; their words follow as a message of their own. Do what they ask, with as little change as it "
        "takes, or answer them if they ask a question."
    )


def render_forgotten(view: SpecView) -> str:
    """Ends the first message of a sandbox that was to go on with a saved session where there is none."""
    return (
        "The session of the earlier work could not be brought along, so you know nothing of it: its commits on the branch "
        f"show what was done. The issue that it is for:\n\n{frame_issue(view)}"
    )
