"""What the documents point at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"\[(?P<text>[^\]\n]+)\]\((?P<target>[^)\s]+)\)")
_NAME = re.compile(r"`([A-Za-z_][\w.]*)`")


@dataclass(frozen=True)
class Link:
    """A relative link. `name` is the code in its text, if the text is nothing but one identifier in code."""

    document: Path
    text: str
    target: str

    @property
    def path(self) -> Path:
        return (self.document.parent / self.target.partition("#")[0]).resolve()

    @property
    def name(self) -> str | None:
        found = _NAME.fullmatch(self.text)
        return found[1] if found else None

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}: [{self.text}]({self.target})"


def list_links(document: Path) -> Iterator[Link]:
    for found in _LINK.finditer(document.read_text()):
        if "://" not in found["target"]:
            inside = found["target"].startswith("#")
            yield Link(document, found["text"], document.name * inside + found["target"])


def list_anchors(document: Path) -> set[str]:
    """What GitHub makes of the headings: lower case, words joined by hyphens, everything else left out."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def code_block(document: Path, title: str) -> str:
    """The fenced block whose opening line ends in `title="…"`. Raises LookupError when there is none, or several."""
    found = re.findall(
        rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```$', document.read_text(), re.MULTILINE | re.DOTALL
    )
    if len(found) != 1:
        raise LookupError(f"{document.name} has {len(found)} blocks called {title}")
    return str(found[0])


@cache
def defined_names(path: Path) -> frozenset[str]:
    """Functions, classes, methods (also as `Class.method`) and constants of a module."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
            names |= {f"{node.name}.{one.name}" for one in methods}
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(names)


def find_broken(link: Link) -> str | None:
    """What is wrong with a link; None when it is right."""
    if not link.path.is_file():
        return f"{link}: there is no such file"
    anchor = link.target.partition("#")[2]
    if anchor and anchor not in list_anchors(link.path):
        return f"{link}: there is no such heading"
    name = link.name
    if name is None or link.path.suffix != ".py" or name in {link.path.name, _module(link.path)}:
        return None
    return None if name in defined_names(link.path) else f"{link}: nothing is called {name} there"


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)
