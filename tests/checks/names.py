"""No class or module is named after nothing: the word for what it is must be found."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.checks.tree import Finding, Tree

EMPTY_WORDS = ("Manager", "Service", "Handler", "Helper", "Utils", "Util")
_IN_CLASS = re.compile(rf"({'|'.join(EMPTY_WORDS)})s?(?![a-z])")
_IN_MODULE = re.compile(rf"(?:^|_)({'|'.join(word.lower() for word in EMPTY_WORDS)})s?(?:$|_)")


def find_empty_names(tree: Tree) -> Iterator[Finding]:
    for source in tree.sources:
        if not source.is_python:
            continue
        for part in source.path.removesuffix(".py").split("/"):
            if found := _IN_MODULE.search(part):
                yield Finding(
                    source.path, 0, f"a module is called {part}: `{found[1]}` does not say what it is"
                )
        for node in ast.walk(source.module):
            if isinstance(node, ast.ClassDef) and (found := _IN_CLASS.search(node.name)):
                yield Finding(
                    source.path, node.lineno, f"class {node.name}: `{found[1]}` does not say what it is"
                )
