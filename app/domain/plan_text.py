"""A model's plain texts as Markdown that only looks, never acts; and what of a long list still fits. Pure.

Unlike an agent's summary, a plan stands between our own folds and lists, so nothing in it may open or close a block:
everything is escaped but inline code, code fences (rebuilt) and list bullets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from string import punctuation
from typing import TypeAlias

from app.domain.sanitize import cut_text, escape_markdown, fence_around, sanitize_line, sanitize_text, size

_SPAN = re.compile(r"`([^`\n]+)`|((?:https?://|www\.)[^\s`]+)", re.IGNORECASE)
_BULLET = re.compile(r"( *)(?:([-*+])|(\d{1,3})[.)]) +(?=\S)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,}) *([A-Za-z0-9+#.-]{0,20})")
_FOLD = re.compile(r"<(?=/?(?:details|summary))", re.IGNORECASE)
_REFERENCE = re.compile(r"(\\#|GH\\-)(?=\d)", re.IGNORECASE)
_NUMBER = re.compile(r"^(\d{1,9})(?=\.(?:\s|$)|\\\))")
_ESCAPES = {ord(mark): escape_markdown(mark) for mark in punctuation} | {ord("&"): "&amp;"}
_CUT = "\n[… cut]"


def inline(text: str, limit: int = 300) -> str:
    """One line, literal but for `inline code`; at most `limit` characters before escaping."""
    return _escape_line(sanitize_line(text[: limit * 4], limit))


def code(text: str, limit: int = 200) -> str:
    """One line as inline code (a path, a command)."""
    text = _unfold(sanitize_line(text[: limit * 4], limit).replace("`", "'").strip())
    return f"`{text}`" if text else "` `"


def prose(text: str, limit: int, indent: str = "") -> str:
    """Paragraphs, lists and code blocks of at most `limit` characters before escaping, every line behind `indent`."""
    text = cut_text(sanitize_text(text[: limit * 2]).replace("\t", "    ").strip(), limit, _CUT)
    lines: list[str] = []
    block: list[str] = []
    fence = word = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            if match and _closes(fence, match[1], line):
                lines += _fenced(block, word)
                fence, block = "", []
            else:
                block.append(line)
        elif match and (match[1][0] == "~" or "`" not in line[match.end(1) :]):
            fence, word = match[1], match[2]
        else:
            lines.append(_escape_bullet(line))
    if fence:
        lines += _fenced(block, word)
    return "\n".join(f"{indent}{line}" if line else "" for line in lines)


def _closes(fence: str, mark: str, line: str) -> bool:
    return mark[0] == fence[0] and len(mark) >= len(fence) and not line.strip(" " + mark[0])


def _fenced(block: list[str], word: str) -> list[str]:
    return fence_around(_unfold("\n".join(block)), word).split("\n")


def _escape_bullet(line: str) -> str:
    match = _BULLET.match(line)
    if not match:
        return _escape_line(line.strip())
    level = " " * (min(len(match[1]), 6) // 2 * 2)
    mark = "-" if match[2] else f"{int(match[3])}."
    return f"{level}{mark} {_escape_line(line[match.end() :].strip())}"


def _escape_line(line: str) -> str:
    parts: list[str] = []
    at = 0
    for match in _SPAN.finditer(line):
        parts.append(_literal(line[at : match.start()]))
        # A bare address becomes code as well: GitHub would tell the other issue that it was mentioned.
        parts.append(f"`{_unfold(match[1] or match[2])}`")
        at = match.end()
    parts.append(_literal(line[at:]))
    return _no_block("".join(parts))


def _no_block(line: str) -> str:
    """What would make the whole line something else: an ordered list's number, an underline of a heading."""
    if line[:1].isdigit():
        return _NUMBER.sub("\\1\u2060", line)
    return f"\u2060{line}" if line.startswith("=") else line


def _literal(text: str) -> str:
    """As `escape_markdown`; also `#1` and `GH-1` link to nothing, and `&lt;` shows as it is written."""
    escaped = text.translate(_ESCAPES)
    return _REFERENCE.sub("\\1\u2060", escaped) if "#" in text or "-" in text else escaped


def _unfold(text: str) -> str:
    return _FOLD.sub("<\u2060", text)


def fold(title: str, lines: Sequence[str], *, is_open: bool = False) -> list[str]:
    """A folded section. The blank lines make GitHub read what is inside as Markdown."""
    return [
        f"<details{' open' if is_open else ''}><summary>{title}</summary>",
        "",
        *lines,
        "",
        "</details>",
        "",
    ]


Shelf: TypeAlias = Sequence[Callable[[], str]]
"""Items that are rendered only when it is their turn: most of a plan too long for a comment is never rendered."""


def fit(shelves: Sequence[Shelf], shares: Sequence[int], room: int) -> list[list[str]]:
    """The items from the front of each shelf that fit into `room` characters together, a line break after each.

    Every shelf first gets its share (in percent); what is left over goes to the shelves in their order.
    """
    takers = [_Taker(shelf) for shelf in shelves]
    for taker, share in zip(takers, shares, strict=True):
        taker.fill(room * share // 100)
    left = room - sum(taker.used for taker in takers)
    for taker in takers:
        had = taker.used
        taker.fill(had + max(left, 0))
        left -= taker.used - had
    return [taker.kept for taker in takers]


class _Taker:
    """Takes items from the front of a shelf; each is rendered once."""

    def __init__(self, shelf: Shelf) -> None:
        self.kept: list[str] = []
        self.used = 0
        self._items = (item() for item in shelf)
        self._next = next(self._items, None)

    def fill(self, room: int) -> None:
        """Take what fits into `room` characters, all that was taken before included."""
        while self._next is not None and self.used + size(self._next) + 1 <= room:
            self.kept.append(self._next)
            self.used += size(self._next) + 1
            self._next = next(self._items, None)
