"""Markdown as GitHub shows it: no HTML but a few harmless tags, comments hidden, task lists."""

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from simulators.github.web.html import Html

SAFE = re.compile(
    r"(<!--.*?(?:-->|\Z)|</?(?:details|summary|b|i|sub|sup|br|kbd)(?:\s+open)?\s*/?>)", re.DOTALL
)
BOX = re.compile(r"\[([ xX])\] ")


def clean_html(text: str) -> str:
    """Raw HTML with everything escaped except the harmless tags; comments vanish."""
    parts = SAFE.split(text)
    kept = [
        escape(part) if index % 2 == 0 else ("" if part.startswith("<!--") else part)
        for index, part in enumerate(parts)
    ]
    return "".join(kept)


def _render_html(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:  # noqa: ARG001
    return clean_html(tokens[index].content)


def _render_box(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:  # noqa: ARG001
    checked = " checked" if tokens[index].content == "x" else ""
    return f'<input type="checkbox" disabled{checked}> '


def _task_lists(state: StateCore) -> None:
    for index, token in enumerate(state.tokens):
        if token.type != "inline" or index < 2 or state.tokens[index - 2].type != "list_item_open":
            continue
        first = token.children[0] if token.children else None
        found = BOX.match(first.content) if first is not None and first.type == "text" else None
        if first is not None and found and token.children is not None:
            first.content = first.content[found.end() :]
            token.children.insert(0, Token("task_box", "", 0, content=found[1].lower().strip()))
            state.tokens[index - 2].attrSet("class", "task")


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True, "breaks": True}).enable(["table", "strikethrough"])
    parser.disable("image")
    parser.core.ruler.push("task_lists", _task_lists)
    for kind in ("html_block", "html_inline"):
        parser.add_render_rule(kind, _render_html)
    parser.add_render_rule("task_box", _render_box)
    return parser


def render(text: str | None) -> Html:
    """Markdown to safe markup."""
    return Html(_parser().render(text or ""))
