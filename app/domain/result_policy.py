"""Decides over the plain facts of a result: push it, there is nothing to push, or a person has to look.

Rule R7: every decision is taken on git's objects, never on a work tree and never on the sandbox's word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from app.domain.secrets_scan import find_secrets
from app.domain.tree_path import escaping_links, hostile_reason, is_device_name, is_protected

ABSENT = "000000"
GITLINK = "160000"
SYMLINK = "120000"
_FILE_MODES = frozenset({"100644", "100755"})

DEFAULT_PROTECTED = (
    ".github/workflows/**",
    ".github/issuewright.yml",
    "/CODEOWNERS",
    ".github/CODEOWNERS",
    "docs/CODEOWNERS",
    ".gitmodules",
)
"""Contract, section 4. CODEOWNERS in the three places where GitHub reads it."""

_SHOWN = 20


@dataclass(frozen=True)
class ResultLimits:
    """How large a result may be. Files and bytes count what is new against the base, commits those after the start."""

    max_bundle_bytes: int = 100_000_000
    max_commits: int = 500
    max_files: int = 2_000
    max_file_bytes: int = 20_000_000
    max_total_bytes: int = 50_000_000


@dataclass(frozen=True)
class ChangedEntry:
    """One path that differs between merge base and result, without rename detection: a move is two of these.

    Modes are git's six digits, `000000` when there is nothing. `size` is that of the new blob in bytes. `in_start`: it
    stood like that in the commit that the result starts from, where people or an accepted result have put it.
    """

    path: str
    old_mode: str
    new_mode: str
    size: int = 0
    in_start: bool = False
    is_binary: bool = False
    is_lfs_pointer: bool = False


@dataclass(frozen=True)
class NewBlob:
    """A file's content that the result's history adds, at whichever commit, so also what was taken out again."""

    path: str
    size: int


@dataclass(frozen=True)
class AddedText:
    """What a new blob adds, line by line; lines that stood in the old file are empty here, so that numbers agree."""

    path: str
    text: str


@dataclass(frozen=True)
class CommitFacts:
    sha: str
    parents: tuple[str, ...]
    author: str
    message: str


@dataclass(frozen=True)
class ResultFacts:
    """What git says about a result; nothing here is the sandbox's word.

    `entries` compare merge base and head. `links` are all symbolic links of the result's tree. `added` is empty when
    the sizes are over the limits already, since then nobody reads the contents.
    """

    start_sha: str
    head_sha: str
    base_sha: str
    same_tree: bool
    """The head's tree is the start's tree: nothing done, or done and undone."""
    whitespace_only: bool = False
    """Nothing differs but blank lines and white space at line ends."""
    entries: tuple[ChangedEntry, ...] = ()
    blobs: tuple[NewBlob, ...] = ()
    added: tuple[AddedText, ...] = ()
    commits: tuple[CommitFacts, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    twins: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ResultPolicy:
    """`canaries`: exact secrets of ours that must not leave, whatever they look like.

    `delivered`: an earlier result of the same sandbox stands on the branch, so that going back to the start is a
    change as well (its new commits undo what was pushed).
    """

    protected: tuple[str, ...] = DEFAULT_PROTECTED
    limits: ResultLimits = field(default_factory=ResultLimits)
    canaries: tuple[str, ...] = field(default=(), repr=False)
    delivered: bool = False


@dataclass(frozen=True)
class Accepted:
    """May be pushed. `notes` are sentences for people about what may need their eye."""

    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoChanges:
    """`reason`: `same_tree` or `whitespace_only`."""

    reason: str


@dataclass(frozen=True)
class PushRefused:
    """Must not be pushed. `code` is stable, `detail` and `paths` may be shown to people.

    Codes: `too_many_commits`, `too_many_files`, `too_large`, `secret`, `hostile_path`, `twin_paths`, `bad_mode`,
    `symlink`, `submodule`, `protected_paths`. With `secret` the diff itself must not be shown.
    """

    code: str
    detail: str
    paths: tuple[str, ...] = ()


Decision: TypeAlias = Accepted | NoChanges | PushRefused
_Rule: TypeAlias = Callable[[ResultFacts, ResultPolicy], PushRefused | None]


def decide_result(facts: ResultFacts, policy: ResultPolicy) -> Decision:
    """The first broken rule refuses. Reads all added text: worth a thread for large results."""
    undoes = policy.delivered and bool(facts.commits)
    if facts.same_tree and not undoes:
        return NoChanges("same_tree")
    for rule in _RULES:
        refused = rule(facts, policy)
        if refused is not None:
            return refused
    if facts.whitespace_only and not undoes:
        return NoChanges("whitespace_only")
    return Accepted(_notes(facts))


def is_oversize(facts: ResultFacts, limits: ResultLimits) -> PushRefused | None:
    """The limit that is broken, if any; needs entries, blobs and commits only."""
    if len(facts.commits) > limits.max_commits:
        detail = f"more than {limits.max_commits} commits"
        return PushRefused("too_many_commits", detail)
    files = max(len(facts.entries), len({blob.path for blob in facts.blobs}))
    if files > limits.max_files:
        return PushRefused("too_many_files", f"{files} changed files, at most {limits.max_files} are allowed")
    large = [blob.path for blob in facts.blobs if blob.size > limits.max_file_bytes]
    if large:
        detail = f"a file is larger than {_megabytes(limits.max_file_bytes)}"
        return PushRefused("too_large", detail, shown_paths(large))
    total = sum(blob.size for blob in facts.blobs)
    if total > limits.max_total_bytes:
        detail = (
            f"{_megabytes(total)} of new content, at most {_megabytes(limits.max_total_bytes)} are allowed"
        )
        return PushRefused("too_large", detail)
    return None


def shown_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """The first paths in order, each fit to be printed: bytes that are no text, and controls, as escapes."""
    unique = sorted(set(paths))
    return tuple(_printable(path) for path in unique[:_SHOWN])


def _printable(path: str) -> str:
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _check_size(facts: ResultFacts, policy: ResultPolicy) -> PushRefused | None:
    return is_oversize(facts, policy.limits)


def _check_secrets(facts: ResultFacts, policy: ResultPolicy) -> PushRefused | None:
    places: set[str] = set()
    for added in facts.added:
        for found in find_secrets(added.text, policy.canaries):
            places.add(f"{_printable(added.path)}:{found.line} ({found.kind})")
    for blob in facts.blobs:
        if find_secrets(blob.path, policy.canaries):
            places.add("the name of a file")
    for commit in facts.commits:
        if find_secrets(commit.message, policy.canaries):
            places.add(f"message of commit {commit.sha[:12]}")
    if not places:
        return None
    return PushRefused(
        "secret", "what looks like a credential would be published", tuple(sorted(places))[:_SHOWN]
    )


def _check_paths(facts: ResultFacts, _policy: ResultPolicy) -> PushRefused | None:
    for entry in _written(facts):
        reason = hostile_reason(entry.path)
        if reason is None and entry.old_mode == ABSENT and is_device_name(entry.path):
            reason = "can't be a file on Windows"
        if reason is not None:
            return PushRefused("hostile_path", f"a path {reason}", shown_paths([entry.path]))
    # Paths that only passing commits used are published too.
    for blob in facts.blobs:
        reason = hostile_reason(blob.path)
        if reason is not None:
            return PushRefused("hostile_path", f"a path {reason}", shown_paths([blob.path]))
    if facts.twins:
        paths = [path for pair in facts.twins for path in pair]
        return PushRefused("twin_paths", "names that some systems take for the same", shown_paths(paths))
    return None


def _check_modes(facts: ResultFacts, _policy: ResultPolicy) -> PushRefused | None:
    links = [entry.path for entry in _own(facts) if GITLINK in {entry.old_mode, entry.new_mode}]
    if links:
        return PushRefused("submodule", "a submodule is changed: that needs a person", shown_paths(links))
    odd = [entry.path for entry in _written(facts) if entry.new_mode not in _FILE_MODES | {SYMLINK}]
    if odd:
        return PushRefused("bad_mode", "a file has a mode that git does not write", shown_paths(odd))
    return None


def _check_links(facts: ResultFacts, _policy: ResultPolicy) -> PushRefused | None:
    changed = frozenset(entry.path for entry in _written(facts) if entry.new_mode == SYMLINK)
    escaping = escaping_links(dict(facts.links), changed) if changed else []
    if escaping:
        return PushRefused("symlink", "a symbolic link leads out of the repository", shown_paths(escaping))
    return None


def _check_protected(facts: ResultFacts, policy: ResultPolicy) -> PushRefused | None:
    touched = [entry.path for entry in _own(facts) if is_protected(entry.path, policy.protected)]
    if touched:
        return PushRefused(
            "protected_paths", "protected paths are changed: that needs a person", shown_paths(touched)
        )
    return None


_RULES: tuple[_Rule, ...] = (
    _check_size,
    _check_secrets,
    _check_protected,
    _check_paths,
    _check_modes,
    _check_links,
)


def _own(facts: ResultFacts) -> Iterable[ChangedEntry]:
    """What the result itself changes."""
    return (entry for entry in facts.entries if not entry.in_start)


def _written(facts: ResultFacts) -> Iterable[ChangedEntry]:
    return (entry for entry in _own(facts) if entry.new_mode != ABSENT)


def _notes(facts: ResultFacts) -> tuple[str, ...]:
    notes = []
    pointers = [entry.path for entry in _written(facts) if entry.is_lfs_pointer]
    if pointers:
        shown = ", ".join(shown_paths(pointers))
        notes.append(f"Git LFS pointers are changed, their content was not transferred: {shown}")
    binaries = [entry.path for entry in _written(facts) if entry.is_binary]
    if binaries:
        notes.append(f"Binary files are changed: {', '.join(shown_paths(binaries))}")
    return tuple(notes)


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:g} MB"
