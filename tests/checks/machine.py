"""Nothing in the tree depends on the machine it was written on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tests.checks.tree import Finding, Tree

PATTERNS: Mapping[str, re.Pattern[str]] = {
    # The agent's home inside a sandbox is a name of ours and exists on no host.
    "a path of one machine": re.compile(
        r"(?<![\w.}])/(?:roo[t]|wor[k]|srv|home/(?!agent\b)[a-z][\w-]*|Users/[A-Za-z][\w-]*|tmp/v\d)/[\w.]"
    ),
    "the address of a package registry": re.compile(
        r"\b(?:(?:[\w-]+\.)*pypi\.org|files\.pythonhosted\.org|registry\.(?:npmjs\.org|yarnpkg\.com)"
        r"|(?:index|static)\.crates\.io|proxy\.golang\.org|deb\.debian\.org)\b|--(?:extra-)?index-url\b"
    ),
}
_RECORDED = ("tests/payloads/",)
"""Bodies as GitHub sent them are kept to the letter."""


def find_machine_traces(tree: Tree) -> Iterator[Finding]:
    for source in tree.sources:
        if source.path.startswith(_RECORDED):
            continue
        for number, line in enumerate(source.text.splitlines(), 1):
            for what, pattern in PATTERNS.items():
                if found := pattern.search(line):
                    yield Finding(source.path, number, f"{what}: {found[0]}")
