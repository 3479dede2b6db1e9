"""SQL is written in app/db (and in migrations), nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.checks.tree import Finding, Source, Tree

_STATEMENT = re.compile(
    r"\s*(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|PRAGMA\s+\w|CREATE\s+(TABLE|INDEX))\s?",
    re.IGNORECASE | re.DOTALL,
)
_ERRORS = {"sqlalchemy.exc"}
"""Catching a database that is away is everybody's business."""
_TYPES = {"sqlalchemy.ext.asyncio": {"AsyncSession"}}
"""A session is handed on as a value, so that several writes share one commit."""
_CALLS = {"execute", "scalars", "scalar", "exec_driver_sql"}


def find_sql_elsewhere(tree: Tree) -> Iterator[Finding]:
    for source in tree.product:
        if source.room in {"app", "worker"} and not source.path.startswith("app/db/"):
            yield from _imports(source)
            yield from _statements(source)


def _imports(source: Source) -> Iterator[Finding]:
    for node in ast.walk(source.module):
        if isinstance(node, ast.Import | ast.ImportFrom) and (names := _refused(node)):
            yield Finding(
                source.path, node.lineno, f"uses sqlalchemy's {', '.join(names)}: move the query to app/db"
            )


def _refused(node: ast.Import | ast.ImportFrom) -> list[str]:
    names = [one.name for one in node.names]
    if isinstance(node, ast.Import):
        return [name for name in names if name.split(".")[0] == "sqlalchemy"]
    module = node.module or ""
    if module.split(".")[0] != "sqlalchemy" or module in _ERRORS:
        return []
    return [name for name in names if name not in _TYPES.get(module, set())]


def _statements(source: Source) -> Iterator[Finding]:
    for node in ast.walk(source.module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _STATEMENT.match(node.value):
            yield Finding(source.path, node.lineno, "an SQL statement: move it to app/db")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CALLS:
            called_on = node.func.value
            if isinstance(called_on, ast.Name) and called_on.id in {"session", "connection"}:
                yield Finding(
                    source.path, node.lineno, f"session.{node.func.attr}(...): move the query to app/db"
                )
