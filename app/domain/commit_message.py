"""Commit messages of an agent, made fit for a repository that belongs to others."""

from __future__ import annotations

import re
import unicodedata

EMPTY_MESSAGE = "Work on the task"
MAX_SUBJECT_CHARS = 120
MAX_BODY_CHARS = 4000

_MAX_READ_CHARS = 20_000
_WORD_JOINER = "\u2060"
# https://docs.github.com/en/issues/tracking-your-work-with-issues/using-issues/linking-a-pull-request-to-an-issue
_CLOSING = re.compile(
    r"\b(close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b(\s*+:\s++|\s++)(?=(?:[\w.-]+/[\w.-]+)?#\d|GH-\d|https?://\S+/issues/\d)",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"(?<![\w&])#(?=\d)")
# https://docs.github.com/en/actions/how-tos/manage-workflow-runs/skip-workflow-runs
_SKIP = re.compile(
    r"\[\s*(?:skip[ -]+(?:ci|actions)|(?:ci|actions)[ -]+skip|no[ -]+ci)\s*\]|\*\*\*NO_CI\*\*\*",
    re.IGNORECASE,
)
_TRAILER = re.compile(
    r"^[^\S\n]*(?:[a-z][a-z-]*-(?:by|from|to)|on-behalf-of|skip-checks|request-checks|change-id)[^\S\n]*:.*$",
    re.IGNORECASE | re.MULTILINE,
)
_MENTION = re.compile(r"(?<![\w`])@(?=[A-Za-z0-9])")
_SCISSORS = re.compile(r"^-{3,}\s*$|^diff --git ", re.MULTILINE)


def sanitize_commit_message(message: str) -> str:
    """`message` as subject and body that close no issue, skip no CI, credit and call nobody; never empty.

    Other people's trailers are dropped, closing words and mentions are broken by an invisible joiner, control and
    invisible characters are removed, lengths are capped. The same input always gives the same output.
    """
    text = message[:_MAX_READ_CHARS].replace("\r\n", "\n").replace("\r", "\n")
    text = "".join(character for character in text if _is_kept(character))
    text = _until_stable(text)
    text = _CLOSING.sub(rf"\1{_WORD_JOINER}\2", text)
    text = _REFERENCE.sub(f"#{_WORD_JOINER}", text)
    text = _MENTION.sub(f"@{_WORD_JOINER}", text)
    text = _SCISSORS.sub("", text)
    lines = [line.rstrip() for line in text.strip().split("\n")]
    subject = lines[0].strip()[:MAX_SUBJECT_CHARS].rstrip()
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines[1:])).strip("\n")[:MAX_BODY_CHARS].rstrip()
    if not subject:
        return EMPTY_MESSAGE
    return f"{subject}\n\n{body}" if body else subject


def _is_kept(character: str) -> bool:
    return character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def _until_stable(text: str) -> str:
    """Remove skip marks and trailers until removing one brings no new one together."""
    while True:
        shorter = _TRAILER.sub("", _SKIP.sub("", text))
        if shorter == text:
            return text
        text = shorter
