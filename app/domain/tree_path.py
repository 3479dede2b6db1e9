"""Rules about paths inside a repository's tree: which are hostile, which are protected, where links lead.

Paths are git's: components joined by `/`, bytes decoded as UTF-8 with surrogateescape.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4096
_MAX_LINK_HOPS = 40

# What HFS+ leaves out when it compares names (Unicode's default ignorables that git's own check knows).
_IGNORED = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u206a-\u206f\ufeff\u00ad]")
_SHORT_NAMES = (
    (re.compile(r"git~\d+"), ".git"),
    (re.compile(r"(?:gitmod~\d+|gi7eba~\d+|gi7eb[0-9a-f]{0,2}~\d+)"), ".gitmodules"),
)
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(?:\.|$)", re.IGNORECASE)


def fold_path(path: str) -> str:
    """One form for all names that some file system takes for the same: case, composition, ignorables, NTFS tails."""
    return "/".join(_fold_name(name) for name in path.split("/"))


def _fold_name(name: str) -> str:
    text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", _IGNORED.sub("", name)).casefold())
    # NTFS: `name::$INDEX_ALLOCATION` and `name:stream` open `name`; dots and blanks at the end do not count.
    text = text.partition(":")[0].rstrip(". ") or text
    for pattern, meant in _SHORT_NAMES:
        if pattern.fullmatch(text):
            return meant
    return text


def hostile_reason(path: str) -> str | None:
    """Why a path must not be written by a result (F127); None when it is harmless."""
    names = path.split("/")
    octets = [name.encode("utf-8", "surrogateescape") for name in names]
    if "" in names or "." in names or ".." in names:
        return "leaves the tree or is absolute"
    if any(_fold_name(name) == ".git" for name in names):
        return "stands for git's own directory"
    if "\\" in path or re.match(r"[A-Za-z]:", path):
        return "is a path of its own on Windows"
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        return "contains control characters"
    if max(map(len, octets)) > MAX_NAME_BYTES or sum(map(len, octets)) + len(octets) - 1 > MAX_PATH_BYTES:
        return "is too long"
    return None


def is_device_name(path: str) -> bool:
    """Whether some component can't be a file on Windows (`NUL`, `aux.c`)."""
    return any(_DEVICE.match(name) for name in path.split("/"))


def is_protected(path: str, patterns: Iterable[str]) -> bool:
    """Whether a change of `path` touches what `patterns` name, whatever its case or disguise.

    Patterns are those of .gitignore without negation: `*` and `?` within a component, `**` across, a slash inside or
    in front ties to the root, and what names a directory covers all below it. Putting a file or link in the place of
    a directory above a rooted pattern counts as well.
    """
    folded = fold_path(path)
    return any(_pattern(pattern).matches(folded) for pattern in patterns if pattern.strip("/ "))


class _Pattern:
    def __init__(self, text: str) -> None:
        rooted = "/" in text.rstrip("/")
        body = re.sub(r"(/\*\*)+$", "", text.strip("/"))
        names = [name if set(name) & set("*?") else _fold_name(name) for name in body.split("/")]
        core = "/".join(_translate(name.casefold()) for name in names).replace("(?:.*)/", "(?:.*/)?")
        self._expression = re.compile(("" if rooted else "(?:.*/)?") + core + "(?:/.*)?", re.DOTALL)
        self._above: set[str] = set()
        if rooted:
            for index, name in enumerate(names[:-1]):
                if set(name) & set("*?"):
                    break
                self._above.add("/".join(names[: index + 1]))

    def matches(self, folded: str) -> bool:
        return folded in self._above or self._expression.fullmatch(folded) is not None


@lru_cache(maxsize=512)
def _pattern(text: str) -> _Pattern:
    return _Pattern(text)


def _translate(name: str) -> str:
    if name == "**":
        return "(?:.*)"
    pieces = {"*": "[^/]*", "?": "[^/]"}
    return "".join(pieces.get(character, re.escape(character)) for character in name)


def escaping_links(links: Mapping[str, str], changed: frozenset[str]) -> list[str]:
    """Those links that lead out of the tree, or into git's directory, because of a changed link.

    `links` are all symbolic links of the tree with their targets. They are followed the way a kernel does: `..`
    after a link goes up from where the link led, which a textual check gets wrong.
    """
    found = []
    for path in sorted(links):
        escapes, touched = _follow(path, links)
        if escapes and (touched & changed):
            found.append(path)
    return found


def _follow(path: str, links: Mapping[str, str]) -> tuple[bool, frozenset[str]]:
    """Whether resolving `path` escapes, and the links that were walked through. A cycle leads nowhere."""
    todo = path.split("/")[::-1]
    at: list[str] = []
    touched: set[str] = set()
    hops = 0
    while todo:
        name = todo.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            if not at:
                return True, frozenset(touched)
            at.pop()
            continue
        if _fold_name(name) == ".git":
            return True, frozenset(touched)
        here = "/".join((*at, name))
        target = links.get(here)
        if target is None:
            at.append(name)
            continue
        touched.add(here)
        hops += 1
        if target.startswith("/") or "\\" in target or not target or re.match(r"[A-Za-z]:", target):
            return True, frozenset(touched)
        if hops > _MAX_LINK_HOPS:
            return False, frozenset(touched)
        todo += target.split("/")[::-1]
    return False, frozenset(touched)


def twin_paths(changed: Iterable[str], tree: Iterable[str], before: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of different paths in `tree` that some file systems take for one, brought in by `changed`.

    `tree` and `before` hold files and directories alike. A pair that stood in `before` already is nobody's fault.
    """
    groups: dict[str, list[str]] = {}
    for path in tree:
        groups.setdefault(fold_path(path), []).append(path)
    known = frozenset(before)
    pairs: set[tuple[str, str]] = set()
    for path in changed:
        names = path.split("/")
        for depth in range(1, len(names) + 1):
            here = "/".join(names[:depth])
            for other in groups.get(fold_path(here), ()):
                if other != here and not (here in known and other in known):
                    pairs.add((min(here, other), max(here, other)))
    return sorted(pairs)
