"""In app and worker, only app.settings reads the process's environment."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tests.checks.tree import Finding, Tree

ALLOWED: Mapping[str, frozenset[str] | None] = {
    "app/settings.py": None,
    # Not settings of ours: where the system's own programs are, for a child process with an otherwise empty environment.
    "app/sandbox/launch.py": frozenset({"PATH"}),
    "app/sandbox/keeper_start.py": frozenset({"PATH"}),
}
"""Which variables a file may read; None = all."""
_READERS = {"environ", "environb", "getenv", "getenvb"}


def find_environment_reads(tree: Tree) -> Iterator[Finding]:
    for source in tree.product:
        if source.room not in {"app", "worker"}:
            continue
        allowed = ALLOWED.get(source.path, frozenset())
        if allowed is None:
            continue
        named = _named_reads(source.module)
        for node in ast.walk(source.module):
            if _reads(node) and named.get(id(node)) not in allowed:
                yield Finding(
                    source.path,
                    getattr(node, "lineno", 0),
                    "reads the environment: make it a setting in app/settings.py, or allow it here with a reason "
                    "(tests/checks/environment.py)",
                )


def _reads(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _READERS and isinstance(node.value, ast.Name) and node.value.id == "os"
    return (
        isinstance(node, ast.ImportFrom)
        and node.module == "os"
        and bool(_READERS & {one.name for one in node.names})
    )


def _named_reads(module: ast.Module) -> dict[int, str]:
    """`os.environ` and `os.getenv` nodes whose variable is written out: the node's id → the variable."""
    found: dict[int, str] = {}
    for node in ast.walk(module):
        reader: ast.AST | None = None
        name: ast.expr | None = None
        if isinstance(node, ast.Subscript):
            reader, name = node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            reader = node.func if _reads(node.func) else node.func.value
            name = node.args[0]
        if reader is not None and isinstance(name, ast.Constant) and isinstance(name.value, str):
            found[id(reader)] = name.value
    return found
