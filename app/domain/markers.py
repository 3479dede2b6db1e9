"""Markers: hidden comments that say which spec a text of ours belongs to. They count only in texts our App wrote."""

from __future__ import annotations


def status_marker(spec_id: str) -> str:
    return f"<!-- issuewright:spec={spec_id} part=status -->"


def plan_marker(spec_id: str) -> str:
    return f"<!-- issuewright:spec={spec_id} part=plan -->"


def questions_marker(spec_id: str) -> str:
    return f"<!-- issuewright:spec={spec_id} part=questions -->"


def task_marker(spec_id: str, task_key: str) -> str:
    """Of the issue of one task."""
    return f"<!-- issuewright:spec={spec_id} task={task_key} -->"


def notice_marker(key: str) -> str:
    """Of a comment that belongs to no spec; `key` has only word characters, dots, colons and dashes."""
    return f"<!-- issuewright:notice={key} -->"


def body_begin(spec_id: str) -> str:
    return f"<!-- issuewright:spec={spec_id} part=body -->"


BODY_END = "<!-- issuewright:end -->"
