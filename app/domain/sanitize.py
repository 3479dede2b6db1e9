"""The one boundary that text of strangers passes on its way to a prompt or to GitHub. Pure."""

from __future__ import annotations

import re
import unicodedata

MAX_BODY = 65_536
"""GitHub's limit of a comment, issue or pull-request body, in characters (422 above it)."""

# Characters nobody sees: zero-width, bidirectional controls, tag characters, soft hyphen, variation selectors 17+.
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e01ef]"
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_FENCE_RUN = re.compile(r"`{50}(?=`)|~{50}(?=~)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_HIDDEN_ATTRIBUTE = re.compile(
    r"""\s(?:alt|title|aria-label|data-[\w-]+)\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+)""", re.IGNORECASE
)
_TAG = re.compile(r"<[a-zA-Z][^<>]{0,2000}>")
_IMAGE_ALT = re.compile(r"!\[[^\]]*\]\(\s*(\S+?)(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)")
_MENTION = re.compile(r"(?<![\w/`])@(?=[\w-])")


def sanitize_text(text: str) -> str:
    """Make what a person sees and what a model reads the same: no hidden comments, invisible or control characters,
    no hidden attributes, no alternative texts. Line ends become LF.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # Unseen characters first: one inside `<!--` would hide a comment from the next line, and then give it back.
    text = drop_unseen(text)
    # Taking a comment out may bring the halves of another together; that one is broken instead.
    return drop_hidden_words(_COMMENT.sub("", text))


def drop_unseen(text: str) -> str:
    """Without characters that nobody sees."""
    return _SURROGATE.sub("", _INVISIBLE.sub("", _CONTROL.sub("", text)))


def drop_hidden_words(text: str) -> str:
    """Without attributes and alternative texts; no comment begins in it."""
    text = text.replace("<!--", "<! --")
    text = _TAG.sub(lambda tag: _HIDDEN_ATTRIBUTE.sub("", tag.group()), text)
    return _IMAGE_ALT.sub(r"![image](\1)", text)


def sanitize_line(text: str, limit: int = 200) -> str:
    """One line for a title, a table cell or a log: no line breaks, nothing that Markdown or HTML acts on."""
    text = " ".join(sanitize_text(text).split())
    text = unicodedata.normalize("NFC", text)
    if len(text) > limit:
        text = text[: limit - 1].rstrip() + "…"
    return text


def escape_markdown(text: str) -> str:
    """Show `text` literally inside our Markdown: no link, mention, issue reference, markup or marker works."""
    text = re.sub(r"([\\`*_{}\[\]()#+!|~>-])", r"\\\1", text)
    return text.replace("<", "&lt;").replace("@", "@\u2060")


def quote_block(text: str, limit: int) -> str:
    """A stranger's text inside a fence that it can't close, cut at a line end with a notice."""
    return fence_around(cut_text(sanitize_text(text), limit, "\n[… cut here]"))


def fence_around(text: str, word: str = "text") -> str:
    """`text` in a code fence that nothing in it closes."""
    text = _break_runs(text)
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{word}\n{text}\n{fence}"


def neutralize_agent_text(text: str, limit: int) -> str:
    """An agent's Markdown for showing on GitHub: kept readable, but it mentions nobody, closes no issue, carries no
    marker, and its fences and `<details>` are closed.
    """
    text = sanitize_text(text)
    text = _MENTION.sub("@\u2060", text)
    text = re.sub(
        r"\b(clos(?:e|es|ed)|fix(?:es|ed)?|resolv(?:e|es|ed))(\s*:?\s+)((?:[\w.-]+/[\w.-]+)?#\d+|GH-\d+|https?://\S+/issues/\d+)",
        lambda m: f"{m[1]}{m[2]}`{m[3]}`",
        text,
        flags=re.IGNORECASE,
    )
    text = re.sub(r"</?(?:details|summary)[^>]*>", "", text, flags=re.IGNORECASE)
    text = re.sub(
        r"<(?=/?(?:details|summary))", "&lt;", text, flags=re.IGNORECASE
    )  # halves that came together
    return close_fences(cut_text(_break_runs(text), limit))


def _break_runs(text: str) -> str:
    """No endless run of fence marks: a closing fence is as long as the run that it closes, and would double the text."""
    return _FENCE_RUN.sub(r"\g<0> ", text)


def close_fences(text: str) -> str:
    """Close a code fence that the text leaves open."""
    open_fence = ""
    for line in text.split("\n"):
        match = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if not match:
            continue
        mark = match[1]
        if not open_fence:
            # Backticks behind backticks are inline code, no fence: "closing" it would open one.
            open_fence = mark if mark[0] == "~" or "`" not in line[match.end() :] else ""
        elif mark[0] == open_fence[0] and len(mark) >= len(open_fence) and not line.strip(" " + mark[0]):
            open_fence = ""
    return f"{text}\n{open_fence}" if open_fence else text


def cut_text(text: str, limit: int, notice: str = "\n\n[… cut: the text was longer]") -> str:
    """At most `limit` characters, counted both as code points and in UTF-16, cut at a line end where there is one."""
    if size(text) <= limit:
        return text
    room = limit - size(notice)
    cut = text[:room]
    while size(cut) > room:
        cut = cut[: len(cut) - max(1, (size(cut) - room) // 2)]
    at = cut.rfind("\n")
    return (cut[:at] if at > room // 2 else cut) + notice


def size(text: str) -> int:
    """The larger of code points and UTF-16 units: it is not documented which of them GitHub counts."""
    return max(len(text), len(text.encode("utf-16-le", "surrogatepass")) // 2)
