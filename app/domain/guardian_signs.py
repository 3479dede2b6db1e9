"""What the guardian reads out of single events of an agent. Pure.

Everything here was written by a sandbox and may be anything: texts are cut before they are looked at, patterns can't
run away, and what is remembered of a text is its digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

MAX_TEXT = 4_000
"""Characters of a command, an input or an error that count."""
MAX_DETAIL = 200
"""Characters of what is quoted to the agent or to people."""
MAX_PATH = 300
MIN_ERROR = 24
"""An error that says less (`Exit code 1` and nothing else) may come from anything."""

_POLLS = frozenset({"BashOutput", "TaskOutput", "TaskGet", "TaskList", "KillShell", "TodoWrite"})
"""Tools that are asked the same on purpose: for news of something that runs, or about the agent's own notes."""
_UNREAD = re.compile(r"File has (?:not been read yet|been modified since read)")
"""The refusal of a tool that wants a file to be read first: the same for every file, and a habit where formatters run."""
_MEASURE = re.compile(r"[-+]?\w+")
"""What `head` and `tail` are told, and no other command behind them."""
_WORK_TREE = re.compile(r"/[^/]+/?")
"""Where a local sandbox has its work tree: a `cd` there says nothing, one to another directory does."""
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_TEST_NAME = re.compile(
    r"(?:test_.*|.*_tests?|.*[.-](?:test|spec)|.*_spec|.*(?:Test|Tests|Spec|IT)|conftest)\.[A-Za-z0-9]{1,5}"
)
_TEST_ROOMS = frozenset({"test", "tests", "__tests__", "spec", "specs", "e2e"})
_CODE = frozenset(
    {
        ".py", ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".rb", ".go", ".rs", ".java", ".kt", ".cs", ".php",
        ".swift", ".scala", ".c", ".cc", ".cpp", ".ex", ".exs",
    }
)  # fmt: skip
_WEAKENED = re.compile(
    r"pytest\.mark\.(?:skip|xfail)\b|\bpytest\.(?:skip|xfail)\(|\bunittest\.skip\b|\bself\.skipTest\("
    r"|\b(?:it|test|describe|context)\.(?:only|skip|todo)\b|\b(?:xit|xtest|xdescribe)\("
    r"|\bunittest\.expectedFailure\b|^\s*@(?:mark\.)?(?:skip|xfail|expectedFailure)\b|\b(?:it|test)\.(?:fixme|fails?|failing)\("
    r"|^\s*(?:fit|fdescribe)\(|^\s*(?:xit|xspecify|xdescribe|xcontext|fit|fdescribe|skip|pending)\b ?[\"']|^\s*skip$"
    r"|\bt\.Skip(?:f|Now)?\(|#\[ignore\b|@(?:Disabled|Ignore)\b|\[Ignore\b|\b(?:Fact|Theory)\(Skip\b"
    r"|\bmarkTest(?:Skipped|Incomplete)\(|\bXCTSkip\b|\bGTEST_SKIP\(|@(?:module)?tag :skip\b"
    r"|\bassert True\s*(?:#.*)?$|\bexpect\(true\)\.(?:toBe\(true\)|toBeTruthy\(\))|\bassertTrue\((?:true|True)\)"
)
_SKIPS_ITSELF = re.compile(
    r"\bpytest\.(?:skip|xfail)\(|\bself\.skipTest\(|\bt\.Skip(?:f|Now)?\(|\bmarkTest(?:Skipped|Incomplete)\("
    r"|\bXCTSkip\b|\bGTEST_SKIP\(|^\s*skip\b"
)
"""A test that leaves itself out while it runs: under a condition (a tool that is missing, a platform) it is in force."""
_CONDITION = re.compile(
    r"(?:\} ?)?(?:el(?:se )?)?if\b(?!\s*\(?\s*(?:[Tt]rue|1)\s*\)?\s*[:{])|(?:\} ?)?else\b|unless\b|guard\b"
    r"|except \(?(?:ImportError|ModuleNotFoundError)\b"
)
_CONDITION_BEHIND = re.compile(r"[\"')] (?:if|unless) \S")
_HEADS = {
    suffix: re.compile(pattern)
    for suffixes, pattern in (
        (".py", r"(?:async )?def test"),
        (".js .jsx .ts .tsx .mjs .cjs", r"(?:it|test|specify)(?:\.\w+)* ?[(`]"),
        (".rb .ex .exs", r"(?:it|test|specify|scenario) [\"']|def test"),
        (".go", r"func (?:Test|Fuzz|Example)\w*\("),
        (".rs", r"#\[(?:\w+::)*(?:test|rstest|test_case)\b"),
        (".java .kt .scala", r"@(?:\w*Test)\b|(?:it|test)\(\""),
        (".cs", r"\[(?:Fact|Theory|Test\w*)\b"),
        (".php", r"(?:public )?function test|#\[Test\b|(?:it|test)\(['\"]"),
        (".swift", r"func test\w*\(|@Test\b"),
        (".c .cc .cpp", r"TEST(?:_F|_P)?\("),
    )
    for suffix in suffixes.split()
}
"""How a line begins with which a test begins."""
_NAMED_BELOW = ("#", "@", "[")
"""A head that begins so has the test's name in the next line."""
WEAK_KEPT = 20
"""Lines of one change that take tests out of force."""
TESTS_KEPT = 300
"""Heads of tests of one change that count."""


@dataclass(frozen=True)
class Call:
    """One call of a tool: `digest` is the same for the same call, `shown` says it in short."""

    digest: str
    shown: str


@dataclass(frozen=True)
class Edit:
    """One changed file. `removed` and `added` are digests of the lines; None where the change shows none."""

    path: str
    change: str
    removed: str | None
    added: str | None
    weakens: tuple[str, ...] = ()
    """The added lines that take tests out of force, but for those in whose place such lines stood before."""
    restores: int = 0
    """Removed lines of that kind in whose place none stand: the tests are in force again, or somewhere else."""
    tests_removed: tuple[str, ...] = ()
    tests_added: tuple[str, ...] = ()
    """Digests of the heads of tests among the lines; what is moved as it is has the same."""

    @property
    def forth(self) -> str:
        return f"{digest(self.path)}:{self.removed}:{self.added}"

    @property
    def back(self) -> str:
        """What an edit that undoes this one has as `forth`."""
        return f"{digest(self.path)}:{self.added}:{self.removed}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def parse_call(data: Mapping[str, Any]) -> Call | None:
    """Of the data of `agent.tool_use`; None for a tool that is asked the same on purpose."""
    tool, given = data.get("tool"), data.get("input")
    if not isinstance(tool, str) or tool in _POLLS:
        return None
    inputs = given if isinstance(given, dict) else {}
    command = inputs.get("command")
    if tool == "Bash" and isinstance(command, str):
        text = normalize_command(command[:MAX_TEXT])
        return Call(digest(f"Bash {text}"), _short(text))
    whole = json.dumps(inputs, sort_keys=True, ensure_ascii=False, default=str)[:MAX_TEXT]
    name = next((value for key in ("file_path", "pattern") if isinstance(value := inputs.get(key), str)), "")
    return Call(digest(f"{tool} {whole}"), _short(f"{tool} {name}".strip()))


def normalize_command(command: str) -> str:
    """Without what changes how much of the same answer is shown: spaces, `2>&1`, a last `| head …` or `| tail …`, and
    a first `timeout …` or `cd … &&` to the work tree.
    """
    words = [word for word in command.split() if word != "2>&1"]
    if "|" in words:
        last = len(words) - 1 - words[::-1].index("|")
        if words[last + 1 : last + 2] in (["head"], ["tail"]) and all(
            map(_MEASURE.fullmatch, words[last + 2 :])
        ):
            words = words[:last]
    away = words[:3] if words[:1] == ["cd"] and words[2:3] == ["&&"] else []
    words = words[len(away) :]
    if words[:1] == ["timeout"]:
        words = words[2:]
    if away and not _WORK_TREE.fullmatch(away[1]):
        words = away + words
    return " ".join(words)


def parse_error(data: Mapping[str, Any]) -> Call | None:
    """Of the data of `agent.user_tool_result`: what went wrong, the same whatever numbers stand in it. None when
    nothing did, when it says too little to be told from others, or when a file is to be read first.
    """
    if data.get("is_error") is not True:
        return None
    text = " ".join(_result_text(data.get("content"))[:MAX_TEXT].split())
    bare = _NUMBER.sub("0", text)
    if len(bare) < MIN_ERROR or _UNREAD.search(text):
        return None
    return Call(digest(bare), _short(text))


def _result_text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content[:20] if isinstance(content, list) else []
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n".join(text[:MAX_TEXT] for text in texts if isinstance(text, str))


def parse_edit(data: Mapping[str, Any]) -> Edit | None:
    """Of the data of `agent.file_edited`; None when it names no file."""
    path, change, diff = data.get("file_path"), data.get("change"), data.get("full_diff")
    if not isinstance(path, str) or not path:
        return None
    path = path[:MAX_PATH]
    diff = diff if isinstance(diff, str) else ""
    removed, added = _lines(diff)
    before, after = (_weak(diff, sign) if is_test(path) else [] for sign in "-+")
    # Of a change that is too large to be shown whole, each line that is not shown may take the place of a test.
    unseen = _unseen(data.get("lines_added"), len(added))
    return Edit(
        path,
        change if isinstance(change, str) else "modified",
        digest("\n".join(removed)) if removed else None,
        digest("\n".join(added)) if added else None,
        tuple(_short(line) for line in after[len(before) :][:WEAK_KEPT]),
        max(len(before) - len(after), 0),
        _heads(path, removed)[unseen:],
        _heads(path, added),
    )


def _weak(diff: str, sign: str) -> list[str]:
    """The removed or the added lines that take tests out of force."""
    found: list[str] = []
    above: list[tuple[int, bool]] = []
    """The lines below which a line stands, by how far they are indented: whether each is a condition."""
    for line in _body(diff):
        if line.startswith("@@"):
            above.clear()
        text = line[1 : MAX_TEXT + 1]
        bare = text.lstrip()
        if not bare or not line.startswith((sign, " ")):
            continue
        indent = len(text) - len(bare)
        while above and above[-1][0] >= indent:
            above.pop()
        under = _CONDITION.match(bare) is not None
        if line.startswith(sign) and _WEAKENED.search(text):
            under_one = under or (bool(above) and above[-1][1]) or _CONDITION_BEHIND.search(text) is not None
            if not (under_one and _SKIPS_ITSELF.search(text)):
                found.append(text)
        above.append((indent, under))
    return found


def _unseen(told: object, shown: int) -> int:
    return max(told - shown, 0) if isinstance(told, int) else 0


def _heads(path: str, lines: list[str]) -> tuple[str, ...]:
    """Digests of the heads of tests, at most `TESTS_KEPT`. Rust's tests stand beside what they test."""
    pattern = _HEADS.get(PurePosixPath(path).suffix)
    if pattern is None or not (is_test(path) or path.endswith(".rs")):
        return ()
    found = []
    for line, following in pairwise([*lines, ""]):
        head = " ".join(line[:MAX_DETAIL].split())
        if pattern.match(head):
            below = " ".join(following[:MAX_DETAIL].split()) if head.startswith(_NAMED_BELOW) else ""
            found.append(digest(f"{head} {below}"))
    return tuple(found[:TESTS_KEPT])


def _lines(diff: str) -> tuple[list[str], list[str]]:
    """The removed and the added lines of a unified diff, each cut."""
    removed: list[str] = []
    added: list[str] = []
    for line in _body(diff):
        if line.startswith("-"):
            removed.append(line[1 : MAX_TEXT + 1])
        elif line.startswith("+"):
            added.append(line[1 : MAX_TEXT + 1])
    return removed, added


def _body(diff: str) -> Iterator[str]:
    """What stands below the first hunk's head; lines before it name the file."""
    inside = False
    for line in diff.split("\n"):
        inside = inside or line.startswith("@@")
        if inside:
            yield line


def is_test(path: str) -> bool:
    """Whether it is a file of tests, by the habits of common languages."""
    pure = PurePosixPath(path)
    return _TEST_NAME.fullmatch(pure.name) is not None or (pure.suffix in _CODE and is_beside_tests(path))


def is_beside_tests(path: str) -> bool:
    """Whether it lies where tests and what they need lie."""
    return not _TEST_ROOMS.isdisjoint(PurePosixPath(path).parts[:-1])


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_DETAIL else line[: MAX_DETAIL - 1] + "…"
