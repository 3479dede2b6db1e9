"""Markers: hidden comments that say which spec a text of ours belongs to. They count only in texts our App wrote."""

from __future__ import annotations


def status_marker(spec_id: str) -> str:
    return f"<!-- issuewright:spec={spec_id} part=status -->"


def plan_marker(spec_id: str) -> str:
    return f"<!-- issuewright:spec={spec_id} part=plan -->"


def questions_marker(spec_id: str) -> str:
    return f"<!-- issuewright:spec={spec_id} part=questions -->"


def notice_marker(key: str) -> str:
    """Of a comment that belongs to no spec; `key` has only word characters, dots, colons and dashes."""
    return f"<!-- issuewright:notice={key} -->"


def body_begin(spec_id: str) -> str:
    return f"<!-- issuewright:spec={spec_id} part=body -->"


BODY_END = "<!-- issuewright:end -->"
