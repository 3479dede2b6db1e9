"""Commands and words in comments, read as GitHub shows them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from app.domain.commands import (
    MAX_COMMANDS,
    Approve,
    Base,
    Command,
    Comment,
    Help,
    NoHash,
    Pause,
    Resume,
    Retry,
    Status,
    Stop,
    Unknown,
    parse_comment,
    words_of,
)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/agent status", Status()), ("/agent help", Help()), ("/agent", Help()), ("/agent pause", Pause()),
        ("/agent resume", Resume()), ("/agent stop", Stop()), ("/agent stop now", Stop(now=True)),
        ("/agent approve", Approve()), ("/agent approve 0123abc", Approve("0123abc")),
        ("/agent approve `0123ABC`", Approve("0123abc")), ("/agent retry", Retry()),
        ("/agent retry Design", Retry("design")), ("/agent retry T2", Retry("t2")),
        ("/agent base release/1.0+x_y", Base("release/1.0+x_y")), ("/Agent STOP Now", Stop(now=True)),
        ("   /agent  stop\tnow  ", Stop(now=True)), ("/agent\u00a0stop\u3000now", Stop(now=True)),
        ("/agent xyz", Unknown("/agent xyz")), ("/agent base", Unknown("/agent base")),
        ("/agent stop, please", Unknown("/agent stop, please")), ("/agent approve xyz", Unknown("/agent approve xyz")),
        ("/agent stop <!-- x -->", Stop()), ("/agent <!-- a --> stop <!-- b -->now", Stop(now=True)),
        ("/agent stop\\", Stop()), ("/agent base next <!----> \\", Base("next")), ("/agent stop <!-- -->\\", Stop()),
        ("/agent stop <!-- a\nb -->", Stop()), ("/agent stop <!-- a", Unknown("/agent stop <!-- a")),
        ("/agent stop `<!-- a -->`", Unknown("/agent stop `<!-- a -->`")),
        ("/agent approve 012", NoHash("012")), ("/agent retry a b", Unknown("/agent retry a b")),
    ],
)  # fmt: skip
def test_command_alone_is_read_and_is_no_message(line: str, command: Command) -> None:
    assert parse_comment(line) == Comment((command,))
    assert parse_comment(f"{line}\r\n").commands == (command,)


@pytest.mark.parametrize(
    "body",
    [
        "> /agent stop", "> a\n> /agent stop", "> a\n/agent stop", ">> /agent stop", "- > /agent stop",
        "```\n/agent stop\n```", "~~~\n/agent stop", "    /agent stop", "\t/agent stop", "`/agent stop`",
        "`a\n/agent stop\nb`", "<!-- /agent stop -->", "<!--\n/agent stop\n-->", "<!--\n\n/agent stop",
        "a <!--\n/agent stop\n-->", "please /agent stop", "- /agent stop", "# /agent stop", "\\/agent stop",
        "&#47;agent stop", '[a](b "\n/agent stop\n")', "![\n/agent stop\n](x)", "[/agent stop](x)", "**/agent stop**",
        "<code>\n\n/agent stop\n\n</code>", "<blockquote>\n\n/agent stop\n\n</blockquote>", "<pre>\n/agent stop\n</pre>",
        '<blockquote>\nx <a title="</blockquote>">y</a>\n\n/agent stop\n</blockquote>',
        "<blockquote>\nx </code>\n\n/agent stop\n\n</blockquote>", "<!--> <pre>\n\n/agent stop",
        "<code>\n\n> </code>\n\n/agent stop", "<code>\n\n<blockquote>\n\n</code>\n\n/agent stop",
        "/agents stop", "/agent-stop", "/agentstop", "@agent stop", "/agent stop | a\n--- | ---",
        "\ue0000\ue001 stop", "> /agent stop\n\n\ue0000\ue001 stop", "\u200b/agent stop", "", "\r\n",
    ],
)  # fmt: skip
def test_quoted_shown_or_hidden_command_is_none(body: str) -> None:
    assert parse_comment(body).commands == ()


@pytest.mark.parametrize(
    ("body", "commands", "text"),
    [
        ("Thanks.\r\n/agent status\r\n", (Status(),), "Thanks."),
        ("/agent approve abcdef\r\n\r\nLooks fine.\r\n", (Approve("abcdef"),), "Looks fine."),
        ("> Write\r\n> /agent approve abcdef\r\n\r\n/agent approve", (Approve(),), ""),
        ("> why?\n\nBecause.", (), "> why?\n\nBecause."),
        ("/agent stop\n/agent help\n/agent nope", (Stop(), Help(), Unknown("/agent nope")), ""),
        ("/agent stop\n---\nSent from my phone", (Stop(),), "---\nSent from my phone"),
        ("- one\n- two\n/agent stop", (Stop(),), "- one\n- two"),
        ("|a|b|\n|-|-|\n|1|2|\n/agent stop", (Stop(),), "|a|b|\n|-|-|\n|1|2|"),
        ("|a|b|\n|-|-|\n|1|2|\n/agent stop | x", (), "|a|b|\n|-|-|\n|1|2|\n/agent stop | x"),
        ("> |a|b|\n> |-|-|\n> /agent stop\n\nNo.", (), "> |a|b|\n> |-|-|\n> /agent stop\n\nNo."),
        ("<!-- template -->\n", (), ""), ("> only a quote", (), ""), ("![shot](a.png)", (), "![image](a.png)"),
        ("```\ncode\n```", (), "```\ncode\n```"), ("<b>bold</b>", (), "<b>bold</b>"),
        ("<blockquote>q</blockquote>\n\n/agent help", (Help(),), "<blockquote>q</blockquote>"),
        ("@/etc/passwd\n/compact", (), "@/etc/passwd\n/compact"),
        ("> Use <pre> tags.\n\nNo.", (), "> Use <pre> tags.\n\nNo."),
        ("> Use <code> and <blockquote>.\n\n/agent stop", (Stop(),), ""),
        ("/agent pause\\\nUse tabs. <!-- x -->", (Pause(),), "Use tabs."),
        ("/agent pause <!-- a\nb --> Use tabs.", (Pause(),), "Use tabs."),
    ],
)  # fmt: skip
def test_own_words_are_a_message_and_quotes_alone_are_not(
    body: str, commands: tuple[Command, ...], text: str
) -> None:
    parsed = parse_comment(body)
    assert (parsed.commands, parsed.text) == (commands, text)


def test_mentions_are_whole_names_outside_quotes_and_code() -> None:
    body = "@Issuewright, hi @bot-x me@bot.dev `@code` and @app[bot]\n\n> @quoted\n\n    @block"
    assert parse_comment(body).mentions == {"issuewright", "bot-x", "app[bot]"}


def test_of_very_many_commands_the_first_are_read() -> None:
    assert len(parse_comment("/agent status\n" * 500).commands) == MAX_COMMANDS


PIECES = st.sampled_from(
    ["/agent stop", "/agent", "/agent approve abcdef", "> ", "```", "~~~", "`", "<!--", "-->", "<code>", "</code>", "    ",
     "- ", "1. ", "\n", "\n\n", "\r\n", "**", "[", "](x)", "![", "---", "|", "\ue0000\ue001", "\0", "\\", "&#47;", "\t"]
)  # fmt: skip
BODIES = st.text(max_size=80) | st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join)


@given(BODIES)
def test_whatever_is_written_the_parser_answers_and_finds_only_what_starts_a_line(body: str) -> None:
    parsed = parse_comment(body)
    lines = body.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    starts = [line for line in lines if line.lstrip(" ").lower().startswith("/agent")]
    assert len(parsed.commands) <= len(starts)
    assert all(words_of(command).startswith("/agent") for command in parsed.commands)


@given(BODIES)
def test_nothing_inside_a_quote_is_a_command_or_a_message(body: str) -> None:
    lines = body.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    parsed = parse_comment("\n".join(f"> {line}" for line in lines))
    assert parsed == Comment()


@given(BODIES)
def test_nothing_inside_a_fence_is_a_command(body: str) -> None:
    longest = max((len(run) for run in body.replace("\r", "\n").split("\n")), default=0) + 3
    fence = "~" * longest
    assert parse_comment(f"{fence}\n{body}\n{fence}").commands == ()


@pytest.mark.parametrize(
    ("body", "commands"),
    [
        ("<details><summary>More</summary>\n\n/agent stop\n\n</details>", (Stop(),)),
        ("<details>\n/agent stop\n</details>", ()),
        ("<div>/agent stop</div>", ()),
        ("<!--\n\n/agent stop\n\n-->", ()),
        ("Text <!-- and\n/agent stop\n-->", ()),
    ],
)
def test_command_in_html_counts_where_markdown_makes_a_paragraph_of_it(
    body: str, commands: tuple[Command, ...]
) -> None:
    assert parse_comment(body).commands == commands


def test_commands_beyond_the_limit_are_counted() -> None:
    parsed = parse_comment("/agent status\n" * (MAX_COMMANDS + 3))
    assert (len(parsed.commands), parsed.left_out) == (MAX_COMMANDS, 3)
