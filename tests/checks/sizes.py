"""Files, functions and literals stay small enough to be read in one go."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.checks.tree import Finding, Source, Tree

FILE_LINES = 400
FUNCTION_LINES = 60
LITERAL_LINES = 40
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_large(tree: Tree) -> Iterator[Finding]:
    for source in tree.product:
        if not _is_migration(source):
            yield from _long_file(source)
            yield from _long_functions(source)
    for source in tree.sources:
        if source.is_python:
            yield from _long_literals(source)


def _is_migration(source: Source) -> bool:
    """Steps of the schema are lists of columns, written once and never read as code."""
    return source.path.startswith("migrations/versions/")


def _long_file(source: Source) -> Iterator[Finding]:
    lines = source.text.count("\n")
    if lines > FILE_LINES:
        yield Finding(source.path, 0, f"{lines} lines, at most {FILE_LINES}: split it by what it is about")


def _long_functions(source: Source) -> Iterator[Finding]:
    for node in ast.walk(source.module):
        if isinstance(node, _Function) and _length(node) > FUNCTION_LINES:
            yield Finding(
                source.path, node.lineno, f"{node.name} has {_length(node)} lines, at most {FUNCTION_LINES}"
            )


def _long_literals(source: Source) -> Iterator[Finding]:
    for node in ast.walk(source.module):
        is_text = isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        )
        if is_text and isinstance(node, ast.expr) and _length(node) > LITERAL_LINES:
            yield Finding(
                source.path,
                node.lineno,
                f"a literal of {_length(node)} lines, at most {LITERAL_LINES}: programs are modules, texts are Markdown files",
            )


def _length(node: ast.expr | _Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1
