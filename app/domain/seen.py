"""A person's Markdown as people see it on the page: HTML comments are hidden, but not where they stand in code. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from enum import Enum, auto

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.domain.sanitize import drop_hidden_words, drop_unseen, sanitize_text

# As for commands: emphasis changes nothing that is asked here, and a crafted text makes its search slow.
_markdown = MarkdownIt("commonmark").enable("table").disable("emphasis")

_EDGE = re.compile(r"<!---?>|<!--|-->")
_FOOTNOTE = re.compile(r"\[\^[^\]\n]+\]:")
_MAX_BRACKETS = 2_000
"""Each may begin a link, whose end is looked for to the end of the text: 13,000 of them take seconds."""
# Private characters mark the edges of comments for the parser: in what they come out tells what Markdown made of them.
_PLACE, _END = "\ue000", "\ue001"
_PLACED = re.compile(f"{_PLACE}(\\d+){_END}")
# Control characters are in no text that was cleaned.
_KEPT, _CUT = "\x01", "\x02"


class _Sight(Enum):
    """What a page makes of the place where a comment may begin or end. Places that no page shows have none."""

    CODE = auto()
    HTML = auto()
    TEXT = auto()


def sanitize_markdown(text: str, left_out: Collection[int] = ()) -> str:
    """As `sanitize_text`, but comments in code stay as they are, and so does what only looks like the beginning of one.
    `left_out`: numbers of lines, from 0, that have their part in what the Markdown means and are not wanted.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    shown = _without_lines(text, left_out)
    if "<!" not in text:
        return sanitize_text(shown)
    if drop_unseen(text) != text or _FOOTNOTE.search(text):
        # The page may show another structure than the parser finds.
        return sanitize_text(shown)
    if text.count("[") > _MAX_BRACKETS:
        return sanitize_text(shown)
    seen = "".join(_shown(text, shown)).replace(_CUT, "")
    return drop_hidden_words(seen).replace(_KEPT, "<!--")


def _without_lines(text: str, left_out: Collection[int]) -> str:
    """Of the same length: in their place stand characters that cleaning removes."""
    lines = text.split("\n")
    kept = (
        _CUT * (len(line) + 1) if number in left_out else f"{line}\n" for number, line in enumerate(lines)
    )
    return "".join(kept)[: len(text)]


def _shown(text: str, shown: str) -> Iterator[str]:
    """Pieces of `shown`, which is `text` with other characters in lines that are not wanted."""
    edges = list(_EDGE.finditer(text))
    sights = _sights(text, edges)
    at, hidden = 0, False
    raw = False  # whether what hides began in HTML, which only HTML ends
    for number, edge in enumerate(edges):
        sight = sights.get(number)
        if hidden:
            if _ends(edge[0], sight, raw=raw):
                at, hidden = edge.end(), False
        elif edge[0] != "-->":
            yield shown[at : edge.start()]
            at = edge.end()
            wanted = shown[edge.start()] != _CUT
            if sight is _Sight.CODE:
                yield _KEPT + shown[edge.start() + 4 : at] if wanted else ""
            elif sight is _Sight.TEXT and edge[0] == "<!--":
                yield "<! --" if wanted else ""
            elif edge[0] == "<!--":
                hidden, raw = True, sight is _Sight.HTML
    if not hidden:
        yield shown[at:]


def _ends(edge: str, sight: _Sight | None, *, raw: bool) -> bool:
    """Whether a comment that has begun ends there."""
    if edge == "<!--":
        return False
    return not raw or sight is _Sight.HTML or (edge != "-->" and sight is _Sight.TEXT)


def _sights(text: str, edges: Collection[re.Match[str]]) -> dict[int, _Sight]:
    """What the page makes of each edge, by its number. Marks stand inside a comment, so it stays one for the parser;
    behind one that is empty.
    """
    pieces, at = [], 0
    plain = text.replace(_PLACE, "\ufffd").replace(_END, "\ufffd")
    for number, edge in enumerate(edges):
        place = edge.start() if edge[0] == "-->" else edge.end()
        pieces += [plain[at:place], f"{_PLACE}{number}{_END}"]
        at = place
    tokens = _markdown.parse("".join([*pieces, plain[at:]]))
    return {
        int(found[1]): sight
        for content, sight in _contents(tokens)
        for found in _PLACED.finditer(content)
    }  # fmt: skip


_BLOCKS = {"html_block": _Sight.HTML, "fence": _Sight.CODE, "code_block": _Sight.CODE}
_INLINES = {"html_inline": _Sight.HTML, "code_inline": _Sight.CODE, "text": _Sight.TEXT}


def _contents(tokens: Collection[Token]) -> Iterator[tuple[str, _Sight]]:
    for token in tokens:
        if token.type in _BLOCKS:
            yield token.content, _BLOCKS[token.type]
        elif token.type == "inline":
            for child in token.children or ():
                if child.type in _INLINES:
                    yield child.content, _INLINES[child.type]
