"""What the agent leaves in its work tree becomes a commit and a bundle, whatever state the repository is in.

Plumbing only, through an index of our own: no hook, filter, signature or identity of the agent's takes part, and the
result does not depend on the agent's branch, index or locks.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from sandbox_payload.candidates import changed_paths, index_entries, staged_paths
from sandbox_payload.git import Git, GitFailed
from sandbox_payload.stored import Forms, index_lines, is_submodule, stored_forms
from sandbox_payload.wire import RESULT_REF, Brief

_ATTEMPTS = 3


@dataclass(frozen=True)
class Head:
    """The commit that holds all work so far; `left_out` says per path why it could not be taken in."""

    sha: str
    committed: bool = False
    tree: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    note: str = ""


class Worktree:
    def __init__(self, workspace: Path, state: Path, brief: Brief) -> None:
        self._git = Git(
            workspace,
            {
                "GIT_AUTHOR_NAME": brief.author_name,
                "GIT_AUTHOR_EMAIL": brief.author_email,
                "GIT_COMMITTER_NAME": brief.author_name,
                "GIT_COMMITTER_EMAIL": brief.author_email,
            },
        )
        self._state = state
        self._start = brief.start_sha
        self._title = brief.title or "Work in progress"

    def commit_leftovers(self) -> Head:
        """Commits what is not committed, on whatever is checked out; the head that holds everything.

        Running it twice changes nothing. Raises GitFailed when the repository can't be read or written any more.
        """
        parent, head = self._commit()
        if head.committed and self._move_head(head.sha, parent):
            self._tidy_index(head.sha)
        return head

    def snapshot(self) -> Head:
        """As `commit_leftovers`, under the hands of an agent that works: its HEAD, branch and index stay as they are."""
        return self._commit()[1]

    def _commit(self) -> tuple[str | None, Head]:
        """What is checked out, and the commit of everything, which no reference names yet."""
        git = self._git
        git.disarm_filters()
        parent = self._checked_out()
        tree, forms = self._stored_tree(parent or self._start)
        base, note = self._base(parent)
        if base == parent and tree == self._tree_of(base):
            return parent, Head(base, tree=tree, left_out=forms.left_out)
        if parent is not None and base != parent and tree == self._tree_of(base):
            return parent, Head(base, tree=tree, left_out=forms.left_out, note=note)
        sha = git.run("commit-tree", tree, "-p", base, stdin=f"{self._title}\n".encode()).decode().strip()
        return parent, Head(sha, committed=True, tree=tree, left_out=forms.left_out, note=note)

    def bundle(self, head_sha: str, target: Path) -> Path | None:
        """Writes start..head as `target` with the one ref RESULT_REF; None when there is nothing between them."""
        if head_sha == self._start:
            return None
        git = self._git
        git.run("update-ref", "--no-deref", RESULT_REF, head_sha)
        try:
            temporary = target.with_suffix(".new")
            git.run("bundle", "create", "-q", str(temporary), RESULT_REF, f"^{self._start}", timeout_s=600)
            temporary.replace(target)
        finally:
            git.run("update-ref", "--no-deref", "-d", RESULT_REF, check=False)
        return target

    def _checked_out(self) -> str | None:
        """HEAD's commit; None on a branch without commits or when HEAD is broken."""
        found = self._git.run("rev-parse", "--verify", "-q", "HEAD^{commit}", check=False).decode().strip()
        return found or None

    def _base(self, parent: str | None) -> tuple[str, str]:
        """The commit to build on, which must descend from the start, and a remark when it is not the agent's own."""
        if parent is None:
            return self._start, "the checked-out branch had no commit; its files were put on the start commit"
        if self._git.succeeds("merge-base", "--is-ancestor", self._start, parent):
            return parent, ""
        return (
            self._start,
            "the agent rewrote the start commit; its files were put on the start commit as one commit",
        )

    def _stored_tree(self, base: str) -> tuple[str, Forms]:
        for attempt in range(_ATTEMPTS):
            try:
                return self._write_tree(base)
            except GitFailed:  # files may change under our hands while something still runs
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("not reached")

    def _write_tree(self, base: str) -> tuple[str, Forms]:
        index = self._state / "commit.index"
        git = self._git.with_environment({"GIT_INDEX_FILE": str(index)})
        self._copy_index(index)
        staged = staged_paths(git, base)
        try:
            git.run("read-tree", "--reset", base)
        except GitFailed:  # the copied index may be damaged; a fresh one only costs reading every file
            index.unlink(missing_ok=True)
            git.run("read-tree", base)
        git.run("update-index", "-q", "--really-refresh", check=False)
        paths = list(dict.fromkeys([*changed_paths(git), *staged]))
        known = index_entries(git, paths)
        forms = stored_forms(git, [path for path in paths if not is_submodule(known.get(path))], known)
        if forms.entries:
            git.run("update-index", "-z", "--index-info", stdin=index_lines(forms.entries))
        return git.run("write-tree").decode().strip(), forms

    def _copy_index(self, target: Path) -> None:
        """Starts from the agent's index for its knowledge of unchanged files (their stat data). The copy is as old as what
        it was copied from: git reads a file again, whose size and second are the index's, only if it was changed no earlier
        than the index itself (https://git-scm.com/docs/racy-git).
        """
        target.unlink(missing_ok=True)
        named = self._git.run("rev-parse", "--git-path", "index").rstrip(b"\n")
        source = self._git.workspace / os.fsdecode(named)
        if source.is_file():
            with source.open("rb") as file, target.open("wb") as copy:
                written_at = os.fstat(file.fileno()).st_mtime_ns
                shutil.copyfileobj(file, copy)
            os.utime(target, ns=(written_at, written_at))

    def _tree_of(self, commit: str) -> str:
        return self._git.run("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()

    def _move_head(self, sha: str, expected: str | None) -> bool:
        """Puts the checked-out branch on the new commit; a lock left by a killed git only costs that."""
        arguments = ["update-ref", "-m", "commit: leftovers", "HEAD", sha]
        return self._git.succeeds(*arguments, expected) if expected else self._git.succeeds(*arguments)

    def _tidy_index(self, sha: str) -> None:
        """Lets the agent see its files as committed."""
        self._git.run("read-tree", "--reset", sha, check=False)
        self._git.run("update-index", "-q", "--refresh", check=False)
