"""What an agent left behind becomes a result: committed, bundled, byte for byte."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_payload.wire import Brief
from sandbox_payload.worktree import Head, Worktree
from tests.payload.sandbox import git, make_repository

CRLF = b"one\r\ntwo\r\nthree\r\n"


class Repository:
    def __init__(self, folder: Path, files: dict[str, bytes] | None = None) -> None:
        self.path = folder / "tree"
        self.start = make_repository(self.path, files)
        self.state = folder / "state"
        self.state.mkdir(exist_ok=True)
        brief = Brief(
            sandbox_id="s",
            spec_id="p",
            repository="carol/x",
            branch="b",
            start_sha=self.start,
            title="Leftovers",
        )
        self.worktree = Worktree(self.path, self.state, brief)

    def write(self, name: str, content: bytes, mode: int | None = None) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if mode is not None:
            path.chmod(mode)

    def commit(self) -> Head:
        return self.worktree.commit_leftovers()

    def changed(self, head: Head) -> list[str]:
        return git(self.path, "diff", "--name-status", "--no-renames", self.start, head.sha).splitlines()

    def blob(self, head: Head, name: str) -> bytes:
        size = int(git(self.path, "cat-file", "-s", f"{head.sha}:{name}"))
        content = git(self.path, "cat-file", "blob", f"{head.sha}:{name}").encode(errors="surrogateescape")
        return content if len(content) == size else content + b"\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_when_nothing_changed_then_the_head_stays_and_there_is_no_bundle(
    repository: Repository, tmp_path: Path
) -> None:
    head = repository.commit()
    assert (head.sha, head.committed) == (repository.start, False)
    assert repository.worktree.bundle(head.sha, tmp_path / "x.bundle") is None


def test_when_called_twice_then_the_second_time_changes_nothing(
    repository: Repository, tmp_path: Path
) -> None:
    repository.write("a.txt", b"1\n")
    first, second = repository.commit(), repository.commit()
    assert first.sha == second.sha
    assert not second.committed
    assert git(repository.path, "status", "--porcelain") == ""
    bundle = repository.worktree.bundle(first.sha, tmp_path / "x.bundle")
    assert git(repository.path, "bundle", "list-heads", str(bundle)) == f"{first.sha} refs/issuewright/result"
    assert "issuewright" not in git(repository.path, "for-each-ref")


@pytest.mark.parametrize("branching", [["switch", "-q", "-c", "my-fix"], ["checkout", "-q", "--detach"]])
def test_when_the_agent_left_another_head_then_its_commits_and_leftovers_are_the_result(
    repository: Repository, branching: list[str]
) -> None:
    git(repository.path, *branching)
    repository.write("mine.txt", b"1\n")
    git(repository.path, "add", "-A")
    git(repository.path, "commit", "-q", "-m", "mine")
    repository.write("left.txt", b"2\n")
    head = repository.commit()
    assert repository.changed(head) == ["A\tleft.txt", "A\tmine.txt"]
    assert git(repository.path, "rev-parse", "HEAD") == head.sha
    assert git(repository.path, "rev-parse", "feature/7-x") == repository.start


def test_when_a_file_is_changed_in_the_second_of_the_index_and_keeps_its_size_then_it_is_committed(
    repository: Repository,
) -> None:
    path, index = repository.path / "README.md", repository.path / ".git" / "index"
    git(
        repository.path, "config", "core.checkStat", "minimal"
    )  # whole seconds, as most builds of git compare
    second = (1_700_000_000, 1_700_000_000)
    os.utime(path, second)
    git(repository.path, "update-index", "--refresh")
    os.utime(index, second)
    repository.write("README.md", b"# Exbmple\n")
    os.utime(path, second)
    assert repository.changed(repository.commit()) == ["M\tREADME.md"]


def test_when_hooks_filters_and_signing_are_configured_then_none_of_them_takes_part(tmp_path: Path) -> None:
    hook = b'#!/bin/sh\nfor f in *.py; do echo "# hooked" >> $f; done\ntouch HOOK_RAN\nexit 1\n'
    repository = Repository(
        tmp_path, {".hooks/pre-commit": hook, ".gitattributes": b"*.dat filter=shout\n", "a.dat": b"a\n"}
    )
    for name in ("pre-commit", "reference-transaction", "post-commit", "post-index-change"):
        repository.write(f".git/own-hooks/{name}", hook, 0o755)
    git(repository.path, "config", "core.hooksPath", ".git/own-hooks")
    git(repository.path, "config", "commit.gpgsign", "true")
    git(repository.path, "config", "core.fsmonitor", "touch FSMONITOR_RAN; false")
    git(repository.path, "config", "filter.shout.clean", "tr a-z A-Z; touch FILTER_RAN")
    git(repository.path, "config", "filter.shout.required", "true")
    repository.write("binomial.py", b"print(1)\n")
    repository.write("a.dat", b"b\n")
    head = repository.commit()
    assert repository.changed(head) == ["M\ta.dat", "A\tbinomial.py"]
    assert repository.blob(head, "binomial.py") == b"print(1)\n"
    assert repository.blob(head, "a.dat") == b"b\n"
    assert not list(repository.path.glob("*_RAN"))


def test_when_the_lfs_program_is_missing_then_pointers_stay_as_they_are(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 9\n"
    repository = Repository(tmp_path, {"data/model.bin": pointer})
    repository.write(".gitattributes", b"*.bin filter=lfs diff=lfs merge=lfs -text\n")
    git(repository.path, "config", "filter.lfs.process", "git-lfs filter-process")
    git(repository.path, "config", "filter.lfs.required", "true")
    os.utime(repository.path / "data/model.bin", (1, 1))
    assert repository.changed(repository.commit()) == ["A\t.gitattributes"]


def test_when_files_have_modes_links_and_crlf_then_they_pass_through_untouched(tmp_path: Path) -> None:
    repository = Repository(
        tmp_path, {"win.txt": CRLF, "tool.sh": b"#!/bin/sh\n", "docs/v2/index.md": b"x\n"}
    )
    (repository.path / "tool.sh").chmod(0o755)
    (repository.path / "docs/latest").symlink_to("v2")
    repository.start = git(repository.path, "rev-parse", "HEAD")
    repository.write("win.txt", CRLF.replace(b"two", b"TWO"))
    repository.write("run.sh", b"#!/bin/sh\n", 0o755)
    repository.write('docs/\xc3\xa9t\xc3\xa9 "q"\ttab\nnewline.txt'.encode("latin-1").decode(), b"odd\n")
    head = repository.commit()
    tree = git(repository.path, "ls-tree", "-r", head.sha)
    assert "100755 blob" in next(line for line in tree.splitlines() if line.endswith("\trun.sh"))
    assert "100755 blob" in next(line for line in tree.splitlines() if line.endswith("\ttool.sh"))
    assert "120000 blob" in next(line for line in tree.splitlines() if line.endswith("\tdocs/latest"))
    assert "newline.txt" in tree
    assert (
        git(repository.path, "diff", "--numstat", repository.start, head.sha, "--", "win.txt")
        == "1\t1\twin.txt"
    )


@pytest.mark.parametrize("attributes", [None, b"* text=auto\n", b"* text\n", b"* text eol=crlf\n"])
def test_when_line_ends_are_mixed_then_only_what_was_edited_appears_with_its_own_counts(
    tmp_path: Path, attributes: bytes | None
) -> None:
    mixed = b"a\nb\r\nc\nlast without end"
    files = {
        "src/win.py": CRLF,
        "src/mixed.txt": mixed,
        "src/bom.cs": b"\xef\xbb\xbfx\r\ny\r\n",
        "log.txt": b"1%\r2%\r\n",
    }
    repository = Repository(
        tmp_path,
        {**files, "src/latin.txt": b"caf\xe9\n", "src/untouched.py": CRLF, "src/lf.py": b"1\n2\n3\n"},
    )
    if attributes is not None:
        git(repository.path, "config", "core.autocrlf", "false")
        (repository.path / ".gitattributes").write_bytes(attributes)
        git(repository.path, "add", ".gitattributes")
        git(repository.path, "commit", "-q", "-m", "attributes")
        start = git(repository.path, "rev-parse", "HEAD")
        brief = Brief(sandbox_id="s", spec_id="p", repository="carol/x", branch="b", start_sha=start)
        repository.start, repository.worktree = start, Worktree(repository.path, repository.state, brief)
        git(repository.path, "rm", "-q", "--cached", "-r", ".")
        git(repository.path, "reset", "-q", "--hard")
    for name in ("src/win.py", "src/mixed.txt", "src/lf.py"):
        content = (repository.path / name).read_bytes()
        repository.write(
            name,
            content.replace(b"two", b"2!")
            .replace(b"c\n", b"C\n")
            .replace(b"c\r\n", b"C\r\n")
            .replace(b"3", b"three"),
        )
    for found in repository.path.rglob("*"):
        if ".git" not in found.parts:
            os.utime(found, (1, 1))
    head = repository.commit()
    counted = git(repository.path, "diff", "--numstat", repository.start, head.sha).splitlines()
    # With eol=crlf the checkout itself had changed the mixed file's line ends, so its next form differs in one more.
    mixed_lines = 2 if attributes == b"* text eol=crlf\n" else 1
    assert counted == ["1\t1\tsrc/lf.py", f"{mixed_lines}\t{mixed_lines}\tsrc/mixed.txt", "1\t1\tsrc/win.py"]


def test_when_the_agents_index_is_locked_or_odd_then_the_work_is_still_taken(repository: Repository) -> None:
    repository.write(".gitignore", b"build/\n")
    repository.write("build/kept.o", b"1\n")
    repository.write("build/ignored.o", b"1\n")
    git(repository.path, "add", "-f", "build/kept.o")
    repository.write("README.md", b"changed\n")
    git(repository.path, "update-index", "--assume-unchanged", "README.md")
    for lock in ("index.lock", "HEAD.lock", "refs/heads/feature/7-x.lock"):
        repository.write(f".git/{lock}", b"")
    head = repository.commit()
    assert repository.changed(head) == ["A\t.gitignore", "M\tREADME.md", "A\tbuild/kept.o"]


def test_when_the_start_commit_was_rewritten_then_the_files_stand_on_it_again(repository: Repository) -> None:
    repository.write("a.txt", b"1\n")
    git(repository.path, "add", "-A")
    git(repository.path, "commit", "-q", "--amend", "-m", "rewritten")
    repository.write("b.txt", b"1\n")
    head = repository.commit()
    assert repository.changed(head) == ["A\ta.txt", "A\tb.txt"]
    assert git(repository.path, "merge-base", repository.start, head.sha) == repository.start
    assert "rewrote" in head.note


def test_when_an_orphan_branch_is_checked_out_then_the_files_stand_on_the_start_commit(
    repository: Repository,
) -> None:
    git(repository.path, "checkout", "-q", "--orphan", "fresh")
    git(repository.path, "rm", "-rfq", ".")
    repository.write("new.txt", b"1\n")
    head = repository.commit()
    assert repository.changed(head) == ["D\tREADME.md", "A\tnew.txt"]
    assert git(repository.path, "merge-base", repository.start, head.sha) == repository.start


def test_when_something_cannot_be_stored_then_it_is_named_and_the_rest_is_taken(
    repository: Repository,
) -> None:
    make_repository(repository.path / "vendored")
    os.mkfifo(repository.path / "pipe")
    with (repository.path / "huge.bin").open("wb") as file:
        file.truncate(96_000_000)
    repository.write("fine.txt", b"1\n")
    head = repository.commit()
    assert repository.changed(head) == ["A\tfine.txt"]
    assert head.left_out.keys() >= {"vendored/", "huge.bin"}


def test_when_a_file_becomes_a_directory_and_a_link_then_the_tree_follows(tmp_path: Path) -> None:
    repository = Repository(tmp_path, {"a": b"1\n", "b": b"1\n", "d/x": b"1\n"})
    (repository.path / "a").unlink()
    repository.write("a/inner.txt", b"1\n")
    (repository.path / "b").unlink()
    (repository.path / "b").symlink_to("a/inner.txt")
    (repository.path / "d/x").unlink()
    (repository.path / "d").rmdir()
    repository.write("d", b"now a file\n")
    assert repository.changed(repository.commit()) == ["D\ta", "A\ta/inner.txt", "T\tb", "A\td", "D\td/x"]
