"""What a person's comment asks for: commands, and words for the agent (contract, section 4). Pure.

A command stands at the start of a line of the comment's own text: not in a quote, code, an HTML comment, a block of
HTML or a link's invisible parts. Markdown decides what that is, so it is parsed as Markdown: inside `<details>`, a
paragraph after a blank line is the comment's own text, as GitHub shows it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.domain.seen import sanitize_markdown

MAX_COMMANDS = 10
"""Of one comment; what comes after them is not read."""


@dataclass(frozen=True)
class Approve:
    """`plan_hash`: the plan as the person saw it, in lower case, 6 to 64 hexadecimal digits; None = the one shown."""

    plan_hash: str | None = None


@dataclass(frozen=True)
class NoHash:
    """An approval of something that looks like a hash, and can't be one."""

    word: str


@dataclass(frozen=True)
class Stop:
    """`now`: kill the running tool at once, else 30 s to wrap up."""

    now: bool = False


@dataclass(frozen=True)
class Pause:
    pass


@dataclass(frozen=True)
class Resume:
    pass


@dataclass(frozen=True)
class Retry:
    """`what`: a phase's or a task's name, in lower case; None = all that is not done."""

    what: str | None = None


@dataclass(frozen=True)
class Base:
    branch: str


@dataclass(frozen=True)
class Status:
    pass


@dataclass(frozen=True)
class Help:
    pass


@dataclass(frozen=True)
class Unknown:
    """No such command, or not with these words after it. `line` is as written."""

    line: str


Command = Approve | NoHash | Stop | Pause | Resume | Retry | Base | Status | Help | Unknown


@dataclass(frozen=True)
class Comment:
    """`commands` in the order they stand in. `text` is the comment without their lines, as people see it, '' when nothing
    of the person's own is left (quotes and hidden comments are not). `mentions`: names after an @, in lower case, outside quotes and
    code. `left_out`: how many commands there are beyond MAX_COMMANDS.
    """

    commands: tuple[Command, ...] = ()
    text: str = ""
    mentions: frozenset[str] = frozenset()
    left_out: int = 0


_LINE = re.compile(r"^( {0,3})/agent(?=\s|$)", re.IGNORECASE)
_MENTION = re.compile(r"(?<![\w/@.-])@([a-z0-9][a-z0-9-]{0,38}(?:\[bot\])?)", re.IGNORECASE)
_HASH = re.compile(r"[0-9a-f]{6,64}")
_HEX = re.compile(r"[0-9a-f]+")
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_SHUTTERS = frozenset({"blockquote", "code", "pre"})
_HTML = re.compile(r"<!---?>|<!--|-->|<(?P<end>/?)(?P<name>[a-z][a-z0-9-]*)|[\"'>]", re.IGNORECASE)
_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# A private character takes a candidate's place for the parser: whether it comes out as text at a line's start tells
# whether Markdown saw a command there. An escaped or encoded slash never becomes one.
_PLACE, _END = "\ue000", "\ue001"
_PLACED = re.compile(f"^{_PLACE}(\\d+){_END}")

# Emphasis changes nothing that is asked here, and a crafted comment makes its search slow.
_markdown = MarkdownIt("commonmark").enable("table").disable("emphasis")


def parse_comment(body: str) -> Comment:
    """Never raises, whatever the body is."""
    plain = body.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    lines = plain.replace(_PLACE, "\ufffd").replace(_END, "\ufffd").split("\n")
    candidates = {index for index, line in enumerate(lines) if _LINE.match(line)}
    marked = list(lines)
    for index in candidates:
        marked[index] = _LINE.sub(lambda found, index=index: f"{found[1]}{_PLACE}{index}{_END}", lines[index])  # type: ignore[misc]
    seen = _Seen(lines)
    seen.read(_markdown.parse("\n".join(marked)))
    found = sorted(candidates.intersection(seen.commands))
    commands = tuple(_command(lines[index], seen.hidden.get(index, ())) for index in found[:MAX_COMMANDS])
    taken = set(found)
    text = sanitize_markdown(plain, taken).strip() if seen.own_text else ""
    return Comment(commands, text, frozenset(seen.mentions), len(found) - len(commands))


class _Seen:
    """What a walk over the parsed comment found: line numbers of commands, mentions, whether there is own text."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self.commands: list[int] = []
        self.mentions: set[str] = set()
        self.own_text = False
        self.hidden: dict[int, list[str]] = {}
        """HTML comments by the number of the command's line that they begin in, as far as they stand in it."""
        self._shut: list[str] = []
        """Open HTML elements whose content is a quote or code."""
        self._places: dict[str, list[int]] = {name: [] for name in _SHUTTERS}
        """Where each kind of them stands in that list."""
        self._floors: list[int] = []
        """For each open quote of Markdown, how many of them were open before: they are not closed within, and it closes
        those that were opened within.
        """

    def read(self, tokens: Sequence[Token]) -> None:
        for at, token in enumerate(tokens):
            if token.type == "blockquote_open":
                self._floors.append(len(self._shut))
            elif token.type == "blockquote_close":
                self._close_to(self._floors.pop())
            elif token.type == "html_block":
                self._shutters(token.content)
                if not self._quoted and _HIDDEN.sub("", token.content).strip():
                    self.own_text = True
            elif token.type in {"fence", "code_block"}:
                self.own_text = self.own_text or not self._quoted
            elif token.type == "inline":
                self._inline(token, _takes_commands(tokens[at - 1], self._lines[(token.map or (0,))[0]]))

    @property
    def _quoted(self) -> bool:
        return bool(self._floors or self._shut)

    def _shutters(self, html: str) -> None:
        for name, ends in _tags(html):
            places = self._places[name]
            if not ends:
                places.append(len(self._shut))
                self._shut.append(name)
                continue
            floor = self._floors[-1] if self._floors else 0
            quotes = self._places["blockquote"]
            if name != "blockquote" and quotes:
                floor = max(floor, quotes[-1])  # what ends inside a quote began inside it
            if places and places[-1] >= floor:
                self._close_to(places[-1])

    def _close_to(self, count: int) -> None:
        while len(self._shut) > count:
            self._places[self._shut.pop()].pop()

    def _inline(self, token: Token, takes_commands: bool) -> None:
        at_start, in_command = True, False
        for child in token.children or ():
            if child.type == "html_inline":
                self._shutters(child.content)
                if in_command and child.content.startswith("<!--"):
                    in_line, *below = child.content.split("\n")
                    self.hidden.setdefault(self.commands[-1], []).append(in_line)
                    in_command = not below
            elif child.type == "text":
                if at_start:
                    placed = _PLACED.match(child.content)
                    in_command = placed is not None and takes_commands and not self._quoted
                    if placed is not None and in_command:
                        self.commands.append(int(placed[1]))
                self._words(child.content, in_command)
            elif child.type in {"code_inline", "image"}:
                self.own_text = self.own_text or not (self._quoted or in_command)
            # The end of a line inside emphasis or a link starts one as well.
            if child.type in {"softbreak", "hardbreak"}:
                at_start, in_command = True, False
            elif child.content or child.type == "image":
                at_start = False

    def _words(self, content: str, in_command: bool) -> None:
        if self._quoted or not content.strip():
            return
        self.own_text = self.own_text or not in_command
        self.mentions |= {found[1].lower() for found in _MENTION.finditer(content)}


def _tags(html: str) -> Iterator[tuple[str, bool]]:
    """Tags of elements that shut, in order: name, and whether it ends. What stands in a comment or in an attribute's
    value is none.
    """
    within = ""  # a comment, a tag, or a quote in a tag
    for found in _HTML.finditer(html):
        text, name = found[0], (found["name"] or "").lower()
        if within == "<!--":
            within = "" if text == "-->" else within
        elif within in {'"', "'"}:
            within = "<" if text == within else within
        elif within:
            within = text if text in {'"', "'"} else "" if text in {">", "-->"} else within
        elif text == "<!--":
            within = text
        elif name:
            within = "<"
            if name in _SHUTTERS:
                yield name, bool(found["end"])


def _takes_commands(opening: Token, line: str) -> bool:
    """Paragraphs, and those that an underline made into a heading (mail signatures do). The line that follows a list's
    last item or a table's last row belongs to that for Markdown, but starts a line for whoever wrote it; one that is
    meant for a row has a bar. `line`: as written, where what is opened begins.
    """
    if opening.type == "td_open":
        return "|" not in line
    return opening.type == "paragraph_open" or (
        opening.type == "heading_open" and opening.markup in {"-", "="}
    )


def _command(line: str, hidden: Sequence[str] = ()) -> Command:
    """`hidden`: HTML comments in it, which are no words, as little as a backslash that breaks the line."""
    shown = line
    for comment in hidden:
        shown = shown.replace(comment, " ", 1)
    words = shown.removesuffix("\\").split()[1:]
    if not words:
        return Help()
    make = _MAKERS.get(words[0].lower())
    command = make([word.strip("`") for word in words[1:]]) if make else None
    return command or Unknown(line.strip())


def _bare(command: Command) -> Callable[[list[str]], Command | None]:
    return lambda words: None if words else command


def _approve(words: list[str]) -> Command | None:
    if not words:
        return Approve()
    plan_hash = words[0].lower()
    if len(words) != 1 or not _HEX.fullmatch(plan_hash):
        return None
    return Approve(plan_hash) if _HASH.fullmatch(plan_hash) else NoHash(plan_hash[:80])


def _stop(words: list[str]) -> Command | None:
    if not words:
        return Stop()
    return Stop(now=True) if [word.lower() for word in words] == ["now"] else None


def _retry(words: list[str]) -> Command | None:
    if not words:
        return Retry()
    what = words[0].lower()
    return Retry(what) if len(words) == 1 and _WORD.fullmatch(what) else None


def _base(words: list[str]) -> Command | None:
    return Base(words[0]) if len(words) == 1 and len(words[0]) <= 255 else None


_MAKERS: Mapping[str, Callable[[list[str]], Command | None]] = {
    "approve": _approve,
    "stop": _stop,
    "pause": _bare(Pause()),
    "resume": _bare(Resume()),
    "retry": _retry,
    "base": _base,
    "status": _bare(Status()),
    "help": _bare(Help()),
}


def fresh_commands(commands: Sequence[Command], earlier: Sequence[str]) -> list[Command]:
    """Those that the same text did not have before, as `words_of` tells them: an edit repeats nothing."""
    left, fresh = Counter(earlier), []
    for command in commands:
        if left[words_of(command)] > 0:
            left[words_of(command)] -= 1
        else:
            fresh.append(command)
    return fresh


def words_of(command: Command) -> str:
    """The command as one would write it: what tells two of them apart, and what a record keeps."""
    match command:
        case Approve(plan_hash):
            words: Iterator[str | None] = iter(("approve", plan_hash))
        case NoHash(word):
            words = iter(("approve", word))
        case Stop(now):
            words = iter(("stop", "now" if now else None))
        case Retry(what):
            words = iter(("retry", what))
        case Base(branch):
            words = iter(("base", branch))
        case Unknown(line):
            return line[:300]
        case _:
            words = iter((type(command).__name__.lower(),))
    return " ".join(["/agent", *filter(None, words)])
