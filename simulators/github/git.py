"""Plumbing on one bare repository, through the ``git`` program."""

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ZERO = "0" * 40
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
SHA = re.compile(r"[0-9a-f]{40}")


class GitError(Exception):
    """git ended with a failure; the text is what it wrote to stderr."""


@dataclass(frozen=True)
class Person:
    """Name, email and date (as git writes and reads it: ``unix +zone``, or ISO when rendered)."""

    name: str
    email: str
    date: str


@dataclass(frozen=True)
class Commit:
    """One commit object."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Person
    committer: Person
    message: str


@dataclass(frozen=True)
class TreeEntry:
    """One entry of a tree. ``size`` is None for trees and submodules."""

    path: str
    mode: str
    kind: str
    sha: str
    size: int | None


@dataclass(frozen=True)
class FileChange:
    """One changed file between two commits; ``patch`` is the hunks alone, empty for binary files."""

    path: str
    previous: str | None
    status: str
    additions: int
    deletions: int
    sha: str
    patch: str


def clean_environment() -> dict[str, str]:
    """The environment without anything that would redirect git or read a person's configuration."""
    return dict(_clean_environment())


@cache
def _clean_environment() -> Mapping[str, str]:
    """Read once: every request asks git several times, and reading it took a tenth of the answer's time."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env.update(GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.devnull, GIT_TERMINAL_PROMPT="0", LC_ALL="C")
    return env


class BareRepository:
    """A bare repository on disk. Methods raise :class:`GitError` unless they say otherwise."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._commits: dict[str, Commit] = {}
        self._changes: dict[tuple[str, str], list[FileChange]] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._bases: dict[tuple[str, str], str] = {}
        self._merged: dict[tuple[str, str], str] = {}

    def create(self, hooks: Path, default_branch: str) -> None:
        """Makes the repository with the rules GitHub has (no forced push unless the hooks allow it)."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["git", "init", "--quiet", "--bare", f"--initial-branch={default_branch}", str(self.path)],
            check=True,
            env=clean_environment(),
        )
        settings = (
            "[http]\n\treceivepack = true\n"
            "[receive]\n\tdenyNonFastForwards = true\n\tfsckObjects = true\n\tdenyDeleteCurrent = ignore\n"
            "[uploadpack]\n\tallowReachableSHA1InWant = true\n\tallowFilter = true\n"
            "[transfer]\n\thideRefs = refs/pull-base\n[gc]\n\tauto = 0\n"
            f"[core]\n\thooksPath = {hooks}\n"
        )
        with (self.path / "config").open("a", encoding="utf-8") as config:
            config.write(settings)

    def run(self, *args: str, data: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
        """Output of ``git ARGS`` in this repository."""
        done = subprocess.run(  # a failure becomes a GitError below
            ["git", "--git-dir", str(self.path), *args],
            input=data if data is not None else b"",
            capture_output=True,
            check=False,
            env={**clean_environment(), **(env or {})},
        )
        if done.returncode:
            raise GitError(done.stderr.decode("utf-8", "replace").strip())
        return done.stdout

    def line(self, *args: str) -> str:
        """First line of the output."""
        return self.run(*args).decode("utf-8", "replace").strip()

    # refs

    def refs(self, prefix: str = "refs/heads/") -> dict[str, str]:
        """Full ref name → sha, for all refs below ``prefix``, in name order."""
        out = self.run("for-each-ref", "--format=%(objectname) %(refname)").decode()
        pairs = (line.split(" ", 1) for line in out.splitlines())
        return {name: sha for sha, name in pairs if name.startswith(prefix)}

    def find_ref(self, ref: str) -> str | None:
        """Sha of a full ref name, or None."""
        try:
            return self.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{object}}")
        except GitError:
            return None

    def find_commit_sha(self, revision: str) -> str | None:
        """Sha of the commit that a branch, tag, full ref or sha names, or None."""
        candidates = [revision] if revision.startswith("refs/") or SHA.fullmatch(revision) else []
        candidates += [f"refs/heads/{revision}", f"refs/tags/{revision}", revision]
        for name in candidates:
            try:
                return self.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            except GitError:
                continue
        return None

    def kind(self, sha: str) -> str | None:
        """Object type of a sha, or None when there is no such object."""
        try:
            return self.line("cat-file", "-t", sha)
        except GitError:
            return None

    def set_ref(self, ref: str, sha: str, old: str | None = None) -> None:
        """Points a ref at ``sha`` (``old``: only if it is there now; 40 zeros: only if it is new)."""
        self.run("update-ref", ref, sha, *([] if old is None else [old]))

    def delete_ref(self, ref: str) -> None:
        """Removes a ref."""
        self.run("update-ref", "-d", ref)

    def set_head(self, branch: str) -> None:
        """Makes ``branch`` the one that a clone checks out."""
        self.run("symbolic-ref", "HEAD", f"refs/heads/{branch}")

    # objects

    def commit(self, sha: str) -> Commit:
        """The commit with exactly this sha."""
        if sha not in self._commits:
            self._commits[sha] = parse_commit(sha, self.run("cat-file", "commit", sha))
        return self._commits[sha]

    def log(self, revision: str, *, path: str | None = None, skip: int = 0, limit: int = 250) -> list[str]:
        """Shas reachable from ``revision`` (also ``a..b``), newest first."""
        args = ["rev-list", f"--skip={skip}", f"--max-count={limit}", revision]
        return self.run(*args, "--", *([path] if path else [])).decode().split()

    def count(self, exclude: str, include: str) -> int:
        """How many commits ``include`` has that ``exclude`` has not."""
        key = (exclude, include)
        if key not in self._counts:
            self._counts[key] = int(self.line("rev-list", "--count", f"{exclude}..{include}"))
        return self._counts[key]

    def merge_base(self, one: str, other: str) -> str | None:
        """Best common ancestor of two commits, by their shas; None when there is none."""
        key = (one, other)
        if key not in self._bases:
            try:
                self._bases[key] = self.line("merge-base", one, other)
            except GitError:
                return None
        return self._bases[key]

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether moving a ref from ``old`` to ``new`` is a fast-forward."""
        return self.merge_base(old, new) == old

    def blob(self, sha: str) -> bytes:
        """A blob's content."""
        return self.run("cat-file", "blob", sha)

    def tree(self, treeish: str, *, recursive: bool = False, path: str | None = None) -> list[TreeEntry]:
        """Entries of a tree, optionally of everything below it, or of one path in it."""
        args = ["ls-tree", "-z", "-l", *(["-r", "-t"] if recursive else []), treeish]
        out = self.run(*args, "--", *([path] if path else [])).decode("utf-8", "surrogateescape")
        entries = []
        for record in out.split("\0"):
            if record:
                head, name = record.split("\t", 1)
                mode, kind, sha, size = head.split()
                entries.append(TreeEntry(name, mode, kind, sha, None if size == "-" else int(size)))
        return entries

    def changes(self, base: str, head: str) -> list[FileChange]:
        """Changed files between two commits (or trees), with hunks."""
        key = (base, head)
        if key not in self._changes:
            self._changes[key] = list_changes(self, base, head)
        return self._changes[key]

    def write_blob(self, content: bytes) -> str:
        """Stores a blob; its sha."""
        return self.run("hash-object", "-w", "--stdin", data=content).decode().strip()

    def write_tree(self, base: str | None, entries: Sequence[tuple[str, str, str | None]]) -> str:
        """Tree made of ``base`` with entries (mode, path, blob sha; None removes) put over it."""
        with tempfile.TemporaryDirectory() as scratch:
            env = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
            if base is not None:
                self.run("read-tree", base, env=env)
            lines = [f"{mode} {sha}\t{path}" if sha else f"0 {ZERO}\t{path}" for mode, path, sha in entries]
            data = "".join(f"{line}\0" for line in lines).encode()
            self.run("update-index", "-z", "--add", "--replace", "--index-info", data=data, env=env)
            return self.run("write-tree", env=env).decode().strip()

    def write_commit(
        self, tree: str, parents: Sequence[str], message: str, author: Person, committer: Person
    ) -> str:
        """Stores a commit; its sha."""
        env = {
            "GIT_AUTHOR_NAME": author.name,
            "GIT_AUTHOR_EMAIL": author.email,
            "GIT_AUTHOR_DATE": author.date,
            "GIT_COMMITTER_NAME": committer.name,
            "GIT_COMMITTER_EMAIL": committer.email,
            "GIT_COMMITTER_DATE": committer.date,
        }
        args = [arg for parent in parents for arg in ("-p", parent)]
        return self.run("commit-tree", tree, *args, data=message.encode(), env=env).decode().strip()

    def merge_trees(self, ours: str, theirs: str) -> str | None:
        """Tree of a merge of two commits, or None on a conflict."""
        key = (ours, theirs)
        if key not in self._merged:
            try:
                self._merged[key] = self.line("merge-tree", "--write-tree", ours, theirs).splitlines()[0]
            except GitError:
                return None
        return self._merged[key]

    def fetch_from(self, other: "BareRepository", sha: str, ref: str) -> None:
        """Copies what ``sha`` needs from another repository and points ``ref`` at it."""
        if other.path != self.path:
            self.run("fetch", "--quiet", "--no-tags", str(other.path), sha)
        self.set_ref(ref, sha)


def parse_commit(sha: str, raw: bytes) -> Commit:
    """A commit object's parts."""
    head, _, message = raw.decode("utf-8", "replace").partition("\n\n")
    fields: dict[str, list[str]] = {}
    for line in head.splitlines():
        name, _, value = line.partition(" ")
        fields.setdefault(name, []).append(value)
    return Commit(
        sha,
        fields["tree"][0],
        tuple(fields.get("parent", [])),
        parse_person(fields["author"][0]),
        parse_person(fields["committer"][0]),
        message.rstrip("\n"),
    )


def parse_person(text: str) -> Person:
    """``Name <email> unix zone`` taken apart."""
    found = re.fullmatch(r"(.*?) ?<(.*)> (\d+ [+-]\d{4})", text)
    return Person(*found.groups()) if found else Person(text, "", "0 +0000")


STATUS = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "C": "copied", "T": "changed"}


def list_changes(repository: BareRepository, base: str, head: str) -> list[FileChange]:
    """See :meth:`BareRepository.changes`."""
    raw = repository.run("diff-tree", "-r", "-M", "-z", "--raw", "--numstat", base, head)
    tokens = raw.decode("utf-8", "replace").split("\0")
    found: list[tuple[str, str, str | None, str]] = []
    counts: list[tuple[int, int]] = []
    index = 0
    while index < len(tokens) and tokens[index]:
        token = tokens[index]
        if token.startswith(":"):
            *_, _old, new, letter = token.split(" ")
            renamed = letter[0] in "RC"
            path = tokens[index + 2] if renamed else tokens[index + 1]
            found.append((letter[0], path, tokens[index + 1] if renamed else None, new))
            index += 3 if renamed else 2
        else:
            added, removed, path = token.split("\t")
            counts.append((0 if added == "-" else int(added), 0 if removed == "-" else int(removed)))
            index += 1 if path else 3
    patches = split_patches(repository.run("diff-tree", "-r", "-M", "-p", "--no-color", base, head))
    return [
        FileChange(path, previous, STATUS.get(letter, "changed"), *count, new, patch)
        for (letter, path, previous, new), count, patch in zip(found, counts, patches, strict=True)
    ]


def split_patches(raw: bytes) -> list[str]:
    """The hunks of each file of a diff, in order."""
    files = re.split(r"(?m)^diff --git .*\n", raw.decode("utf-8", "replace"))[1:]
    bodies = [re.search(r"(?m)^@@ ", text) for text in files]
    return [text[at.start() :].rstrip("\n") if at else "" for text, at in zip(files, bodies, strict=True)]
