"""The choice of files for control groups, on a directory that looks like the kernel's."""

from __future__ import annotations

from pathlib import Path

from app.sandbox.cgroup import make_cgroups, ran_out_of_memory

LIMITS = {"memory": 1024, "pids": 50, "cpu": 2}


class Tree:
    """A directory whose new subdirectories stay without files, as where no controller is enabled."""

    def __init__(self, root: Path, membership: str) -> None:
        self.root = root / "cgroup"
        self.root.mkdir()
        self.membership = root / "membership"
        self.membership.write_text(membership)


def test_group_without_controllers_is_not_used_and_not_left(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "0::/app.slice/keeper.service\n")
    (tree.root / "cgroup.controllers").touch()
    (tree.root / "app.slice").mkdir()

    assert make_cgroups("box", LIMITS, tree.root, tree.membership) == ()


def test_no_right_to_make_groups_is_no_error(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "1:memory:/nowhere\n2:pids:/nowhere\n")

    assert make_cgroups("box", LIMITS, tree.root, tree.membership) == ()
    assert make_cgroups("box", LIMITS, tree.root, tmp_path / "absent") == ()


def test_kill_for_want_of_memory_is_read_from_either_version(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "memory.oom_control").write_text("oom_kill_disable 0\noom_kill 0\n")

    assert ran_out_of_memory((tmp_path / "two",))
    assert not ran_out_of_memory((tmp_path / "one", tmp_path / "absent"))
