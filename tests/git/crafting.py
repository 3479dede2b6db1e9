"""Builds repositories, commits and bundles object by object, so that they may hold what git's commands refuse."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sandbox_payload.wire import RESULT_REF, Manifest

EXECUTABLE = "100755"
LINK = "120000"
GITLINK = "160000"

FileLike = bytes | tuple[str, bytes | str]
"""Content of a plain file, or (mode, content); of a submodule (mode, commit id)."""


@dataclass
class Repository:
    """A bare repository of the test's own making; paths are `/`-joined and go into trees unchecked."""

    path: Path

    def git(self, *args: str, data: bytes = b"", check: bool = True) -> str:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": "/dev/null",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        done = subprocess.run(
            ["git", "--git-dir", str(self.path), *args], input=data, env=env, capture_output=True, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(done.stderr.decode())
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def object(self, kind: str, data: bytes) -> str:
        whole = f"{kind} {len(data)}".encode() + b"\0" + data
        sha = hashlib.sha1(whole).hexdigest()
        path = self.path / "objects" / sha[:2] / sha[2:]
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(zlib.compress(whole, 1))
        return sha

    def tree(self, files: Mapping[str | bytes, FileLike]) -> str:
        """The tree of these files; directories come from the slashes in their names."""
        below: dict[bytes, dict[str | bytes, FileLike]] = {}
        entries: list[tuple[bytes, str, str]] = []
        for name, content in files.items():
            octets = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
            first, slash, rest = octets.partition(b"/")
            if slash:
                below.setdefault(first, {})[rest] = content
                continue
            mode, data = content if isinstance(content, tuple) else ("100644", content)
            sha = (
                str(data)
                if mode == GITLINK
                else self.object("blob", data if isinstance(data, bytes) else data.encode())
            )
            entries.append((first, mode, sha))
        entries += [(name, "40000", self.tree(inner)) for name, inner in below.items()]
        entries.sort(key=lambda entry: entry[0] + (b"/" if entry[1] == "40000" else b""))
        return self.object(
            "tree",
            b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(sha) for name, mode, sha in entries),
        )

    def commit(
        self,
        files: Mapping[str | bytes, FileLike],
        *parents: str,
        message: str = "Work",
        author: str = "Agent <agent@example.org>",
        when: int = 1_700_000_000,
    ) -> str:
        lines = [f"tree {self.tree(files)}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {author} {when} +0200", f"committer {author} {when + 5} +0000"]
        return self.object("commit", ("\n".join(lines) + "\n\n" + message).encode())

    def branch(self, name: str, sha: str) -> None:
        self.ref(f"refs/heads/{name}", sha)

    def ref(self, name: str, sha: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sha + "\n")

    def head(self, name: str) -> str:
        return self.git("rev-parse", "--verify", "-q", f"refs/heads/{name}", check=False)

    def bundle(self, target: Path, *revisions: str, head: str, ref: str = RESULT_REF) -> Path:
        self.ref(ref, head)
        self.git("bundle", "create", "-q", str(target), ref, *revisions)
        return target


def make_repository(path: Path) -> Repository:
    """Written by hand: a git process for each of the many repositories here would be most of the tests' time."""
    for directory in ("objects/info", "objects/pack", "refs/heads"):
        (path / directory).mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/main\n")
    (path / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
        "[http]\n\treceivepack = true\n[receive]\n\tdenyNonFastForwards = true\n"
    )
    return Repository(path)


def manifest_for(bundle: Path | None, start: str, head: str) -> Manifest:
    return Manifest(
        sandbox_id="sbx_test",
        round=1,
        start_sha=start,
        head_sha=head,
        bundle_sha256=hashlib.sha256(bundle.read_bytes()).hexdigest() if bundle else None,
        status="completed",
        finished_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def trailers_of(repository: Repository, sha: str) -> Sequence[str]:
    return repository.git("log", "-1", "--format=%(trailers)", sha).splitlines()
