"""The project's files, read once, and what a check reports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("app", "worker", "sandbox_payload", "simulators", "migrations", "bench")
_SKIPPED = {"__pycache__", "build", "dist", "node_modules"}
_KEPT_HIDDEN = {".ci", ".github", ".gitignore"}


@dataclass(frozen=True)
class Finding:
    """One place where a rule is broken: `path` relative to the tree, `line` from 1 (0 = the whole file)."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}" if self.line else f"{self.path}: {self.text}"


@dataclass(frozen=True)
class Source:
    """One text file. `path` is relative, with `/`."""

    path: str
    text: str

    @property
    def room(self) -> str:
        return self.path.split("/", 1)[0]

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @property
    def is_product(self) -> bool:
        return self.is_python and self.room in PRODUCT

    @cached_property
    def module(self) -> ast.Module:
        return ast.parse(self.text, self.path)


@dataclass(frozen=True)
class Tree:
    """All text files of a directory, without what is built, cached or hidden."""

    sources: tuple[Source, ...]

    @classmethod
    def read(cls, root: Path = ROOT) -> Tree:
        return cls(tuple(_sources(root, root)))

    @property
    def product(self) -> Iterator[Source]:
        """Python that is shipped or measured: everything but tests."""
        return (source for source in self.sources if source.is_product)


def _sources(root: Path, directory: Path) -> Iterator[Source]:
    for path in sorted(directory.iterdir()):
        name = path.name
        if (
            name in _SKIPPED
            or name.endswith(".egg-info")
            or (name.startswith(".") and name not in _KEPT_HIDDEN)
        ):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _sources(root, path)
        elif path.is_file():
            try:
                yield Source(path.relative_to(root).as_posix(), path.read_text("utf-8"))
            except UnicodeDecodeError:
                continue
