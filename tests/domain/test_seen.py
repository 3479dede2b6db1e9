"""What the agent reads of a person's Markdown is what people see of it on the page."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st
from markdown_it import MarkdownIt

from app.domain.commands import parse_comment
from app.domain.seen import sanitize_markdown

SECRET = "<!-- secret -->"


@pytest.mark.parametrize(
    "text",
    [
        "Write `<!-- generated -->` first.",
        "Write `` `<!-- generated -->` `` first.",
        "Over `two <!-- gene\nrated --> lines`.",
        "```html\n<!-- generated -->\n<p>\n```\nAnd tests.",
        "~~~\n<!-- generated -->\n```\n-->\n~~~\nAnd tests.",
        "```\n<!-- generated -->\nthe fence stays open",
        "```\n<!-- only its beginning\n```\nAnd tests.",
        "Like this:\n\n    <!-- generated -->\n\nAnd tests.",
        "> ```\n> <!-- generated -->\n> ```\n\nYes.",
        "- ```\n  <!-- generated -->\n  ```\n- And tests.",
        "| a | b |\n|---|---|\n| `<!-- x -->` | 2 |",
        "`<!-->` and `<!--->`",
        "An arrow --> and `-->`.",
    ],
)
def test_comment_in_code_is_seen_and_stays(text: str) -> None:
    assert sanitize_markdown(text) == text
    assert parse_comment(f"{text}\n").text == text


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (f"A{SECRET}B", "AB"),
        (f"A\n\n{SECRET}\n\nB", "A\n\n\n\nB"),
        ("A\n\n<!-- secret\n\nsecret --> B", "A\n\n B"),
        ("A\n\n<!-- secret\n\nsecret", "A\n\n"),
        (f"`a` {SECRET} `b`", "`a`  `b`"),
        (f"`a {SECRET} b", "`a  b"),
        (f"\\`a {SECRET} b`", "\\`a  b`"),
        (f"<!-- ` --> {SECRET} `b`", "  `b`"),
        (f"``a` {SECRET} `b`", f"``a` {SECRET} `b`"),
        (f"text\n    {SECRET}", "text\n    "),
        (f"<pre>{SECRET}</pre>", "<pre></pre>"),
        (f"<div>\n```\n{SECRET}\n```\n</div>", "<div>\n```\n\n```\n</div>"),
        (f"```{SECRET}\na\n~~~", "```\na\n~~~"),
        ("A <!-- is how it begins", "A <! -- is how it begins"),
        ("A <!-- begins\n\n```\nends --> here\n```", "A <! -- begins\n\n```\nends --> here\n```"),
        ("<!-- secret\n\n```\nsecret --> here\n```", " here\n```"),
        ("> <!-- secret\n\n```\nsecret --> secret\n```\n\n<b>--></b>", "> "),
        ("`a <!--` secret -->", "`a <!--` secret -->"),
        (f"```\na\n```\n{SECRET}\n```\n<!-- b -->\n```", "```\na\n```\n\n```\n<!-- b -->\n```"),
        (f"A[^1]\n\n[^1]: B\n\n    {SECRET}", "A[^1]\n\n[^1]: B\n\n    "),
        (f"`\u200b``\n{SECRET}\n```", "```\n\n```"),
        (f"\\{SECRET}", "\\<! -- secret -->"),
        (f"[a]({SECRET})", "[a]()"),
        ("\ue0000\ue001 <!-- secret -->", "\ue0000\ue001 "),
        ("a <!--> b", "a  b"),
    ],
)
def test_comment_that_nobody_sees_is_left_out_and_no_other_word(text: str, seen: str) -> None:
    assert sanitize_markdown(text) == seen


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (f"/agent status\n    {SECRET}Hello.", "Hello."),
        (f"/agent base `\nx ` {SECRET} `y\nHello.", "x `  `y\nHello."),
        ("/agent status <!-- a\nb -->\nHello.", "Hello."),
        ("/agent status `<!-- a -->`\nUse `<!-- b -->`.", "Use `<!-- b -->`."),
        ("```\n/agent stop <!-- a -->\n```\n/agent status", "```\n/agent stop <!-- a -->\n```"),
    ],
)
def test_line_of_a_command_has_its_part_in_what_the_page_shows(body: str, text: str) -> None:
    assert parse_comment(body).text == text


PIECES = st.sampled_from(
    ["<!--", "-->", "<!-->", "<!--->", "`", "``", "```", "~~~", "\n", "\n\n", "    ", "> ", "- ", "a", "|", "\\", "<b", ">",
     "<pre>", "</pre>", "[", "](x)", "\t", "/agent stop\n"]
)  # fmt: skip
MARKDOWN = st.lists(PIECES | st.just("SECRET"), max_size=25).map("".join)
_page = MarkdownIt("commonmark").enable("table")


@given(MARKDOWN)
def test_whatever_is_written_what_the_page_hides_in_comments_is_not_read(text: str) -> None:
    page = _page.render(text)
    shown = re.sub(r"<!---?>|<!--.*?(?:-->|\Z)", "", page, flags=re.DOTALL)
    if "SECRET" not in shown:
        hidden_elsewhere = page.count("SECRET") != text.count("SECRET")
        assert hidden_elsewhere or "SECRET" not in sanitize_markdown(text)
