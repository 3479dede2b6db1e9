from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.domain.result_policy import Decision, ResultFacts, ResultLimits, ResultPolicy, decide_result
from app.git.result import Expected, open_result
from tests.git.crafting import FileLike, Repository, make_repository, manifest_for
from tests.git.git_server import GitServer, serve

BASE_FILES: dict[str | bytes, FileLike] = {
    "README.md": b"# Hello\n",
    "src/app.py": b"def main():\n    return 1\n",
    "docs/CODEOWNERS": b"docs/ @alice\n",
    ".github/workflows/ci.yml": b"on: push\n",
    ".gitmodules": b"# none\n",
    "win.txt": b"one\r\ntwo\r\nthree\r\n",
    "tool.sh": ("100755", b"#!/bin/sh\necho hi\n"),
    "docs/v2/index.md": b"v2\n",
    "docs/latest": ("120000", b"v2"),
}


@dataclass
class Bench:
    """A mirror with a base branch and a start commit, a sandbox that has both, and a place for results."""

    mirror: Repository
    sandbox: Repository
    base: str
    start: str
    directory: Path

    @property
    def quarantine(self) -> Repository:
        return Repository(self.directory / "quarantine.git")

    def work(
        self,
        changes: Mapping[str | bytes, FileLike | None],
        *parents: str,
        message: str = "Work",
        author: str = "Agent <agent@example.org>",
    ) -> str:
        """A commit in the sandbox: the base's files with `changes` (None deletes)."""
        files = {**BASE_FILES, **changes}
        kept = {path: content for path, content in files.items() if content is not None}
        return self.sandbox.commit(kept, *(parents or (self.start,)), message=message, author=author)

    async def open(
        self, head: str, limits: ResultLimits | None = None, base: str | None = None
    ) -> ResultFacts:
        bundle = self.sandbox.bundle(self.directory / "result.bundle", f"^{self.start}", head=head)
        return await self.open_bundle(bundle, head, limits, base)

    async def open_bundle(
        self, bundle: Path | None, head: str, limits: ResultLimits | None = None, base: str | None = None
    ) -> ResultFacts:
        return await open_result(
            bundle,
            manifest_for(bundle, self.start, head),
            expected=Expected(self.start, base or self.base),
            mirror=self.mirror.path,
            quarantine=self.quarantine.path,
            limits=limits or ResultLimits(),
        )

    async def decide(self, head: str, policy: ResultPolicy | None = None) -> Decision:
        policy = policy or ResultPolicy()
        return decide_result(await self.open(head, policy.limits), policy)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    mirror, sandbox = make_repository(tmp_path / "mirror.git"), make_repository(tmp_path / "sandbox.git")
    shas = []
    for repository in (mirror, sandbox):
        base = repository.commit(BASE_FILES, message="Base", author="Alice <alice@example.org>")
        start = repository.commit(BASE_FILES, base, message="Start", author="Alice <alice@example.org>")
        repository.branch("main", base)
        repository.branch("feature/1-x", start)
        shas.append((base, start))
    assert shas[0] == shas[1]
    return Bench(mirror, sandbox, *shas[0], tmp_path)


@pytest.fixture
def git_server(tmp_path: Path) -> Iterator[GitServer]:
    root = tmp_path / "served"
    root.mkdir()
    with serve(root) as server:
        yield server
