"""What changed since the last look, whoever changed it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from sandbox_payload.changes import Changes, FileChange
from tests.payload.sandbox import git, make_repository


def begin(tmp_path: Path, files: dict[str, bytes]) -> tuple[Path, Changes]:
    tree = tmp_path / "tree"
    make_repository(tree, files)
    changes = Changes(tree, tmp_path / "state")
    changes.begin()
    return tree, changes


def brief(changes: list[FileChange]) -> list[tuple[str, str, int, int]]:
    return [(change.path, change.change, change.lines_added, change.lines_removed) for change in changes]


def test_when_files_change_in_any_way_then_each_look_tells_what_is_new_since_the_last(tmp_path: Path) -> None:
    tree, changes = begin(
        tmp_path, {"a.txt": b"1\n2\n", "gone.txt": b"x\ny\n", ".gitignore": b"*.log\n", "mode.sh": b"x\n"}
    )
    assert changes.look() == []
    (tree / "a.txt").write_bytes(b"1\ntwo\n")
    (tree / "gone.txt").unlink()
    (tree / "noise.log").write_bytes(b"ignored\n")
    (tree / "new file.bin").write_bytes(b"\0\1\2")
    (tree / "mode.sh").chmod(0o755)
    looked = changes.look()
    assert brief(looked) == [
        ("a.txt", "modified", 1, 1),
        ("gone.txt", "deleted", 0, 2),
        ("mode.sh", "modified", 0, 0),
        ("new file.bin", "created", 0, 0),
    ]
    assert looked[0].full_diff.splitlines()[-3:] == [" 1", "-2", "+two"]
    assert looked[3].binary
    assert looked[3].full_diff == ""
    assert changes.look() == []
    (tree / "a.txt").write_bytes(b"1\ntwo\n3\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "the agent commits")
    assert brief(changes.look()) == [("a.txt", "modified", 1, 0)]
    git(tree, "reset", "-q", "--hard", "HEAD~1")
    assert [change.path for change in changes.look()] == ["a.txt", "gone.txt", "mode.sh", "new file.bin"]


def test_when_the_agent_stages_and_commits_then_its_index_and_objects_are_left_alone(tmp_path: Path) -> None:
    tree, changes = begin(tmp_path, {"a.txt": b"1\n"})
    (tree / "a.txt").write_bytes(b"2\n")
    before = (tree / ".git/index").read_bytes()
    objects = sorted((tree / ".git/objects").rglob("*"))
    assert len(changes.look()) == 1
    assert (tree / ".git/index").read_bytes() == before
    assert sorted((tree / ".git/objects").rglob("*")) == objects


def test_when_the_payload_is_restarted_then_it_goes_on_from_what_it_saw_last(tmp_path: Path) -> None:
    tree, changes = begin(tmp_path, {"a.txt": b"1\n"})
    (tree / "a.txt").write_bytes(b"2\n")
    changes.look()
    (tree / "b.txt").write_bytes(b"1\n")
    again = Changes(tree, tmp_path / "state")
    again.begin()
    assert brief(again.look()) == [("b.txt", "created", 1, 0)]


def test_when_blobs_hold_crlf_under_text_attributes_then_only_edited_files_are_told(tmp_path: Path) -> None:
    tree, changes = begin(tmp_path, {"win.txt": b"1\r\n2\r\n", "other.txt": b"1\r\n2\r\n"})
    (tree / ".gitattributes").write_bytes(b"* text\n")
    for name in ("win.txt", "other.txt"):
        os.utime(tree / name, (1, 1))
    assert brief(changes.look()) == [(".gitattributes", "created", 1, 0)]
    (tree / "win.txt").write_bytes(b"1\r\ntwo\r\n")
    assert brief(changes.look()) == [("win.txt", "modified", 1, 1)]
    assert changes.look() == []


def test_when_content_looks_like_a_patch_then_the_sections_stay_apart(tmp_path: Path) -> None:
    tree, changes = begin(tmp_path, {"a.txt": b"x\n"})
    trap = b"diff --git a/b b/b\n+++ b/b\n@@ -1 +1 @@\n"
    (tree / "a.txt").write_bytes(trap)
    (tree / 'z\n\t"odd".txt').write_bytes(trap)
    assert [(change.path, change.lines_added) for change in changes.look()] == [
        ("a.txt", 3),
        ('z\n\t"odd".txt', 3),
    ]


def test_when_the_tree_is_big_then_a_look_is_still_quick(tmp_path: Path) -> None:
    tree, changes = begin(tmp_path, {f"d{number % 50}/f{number}.txt": b"1\n" for number in range(5_000)})
    (tree / "d1/f1.txt").write_bytes(b"2\n")
    changes.look()

    def timed() -> float:
        started = time.perf_counter()
        changes.look()
        return time.perf_counter() - started

    assert min(timed() for _ in range(5)) < 0.1
