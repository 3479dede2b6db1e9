"""Repositories as people have them: what the agent leaves reaches the branch byte for byte, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import Any

from tests.flow.repository import Repository
from tests.flow.world import World

README = {"README.md": "# Kit\n"}
HOOK = "#!/bin/sh\nfor f in *.py; do echo '# formatted' >> $f; done\ntouch HOOK_RAN\nexit 1\n"
LFS_POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


def shell(world: World, name: str, *commands: str) -> str:
    uses: list[dict[str, Any]] = [
        {"tool_use": [{"name": "Bash", "input": {"command": one}}]} for one in commands
    ]
    world.script(name, [*uses, {"text": "That is done."}])
    return name


def push_tree(repository: Repository, command: str, **environment: str) -> None:
    """What a shell command makes in a clone, pushed to main by a person with their own git: any bytes and modes."""
    with tempfile.TemporaryDirectory(prefix="iw-clone-") as clone:
        steps = (
            f"git clone -q {repository.path} . && {command} && git add -A"
            " && git -c user.name=alice -c user.email=alice@example.org commit -qm Shape"
            f" && git push -q {repository.path} HEAD:refs/heads/main"
        )
        plain = {"PATH": os.environ["PATH"], "HOME": clone, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["/bin/sh", "-ec", steps], cwd=clone, env=plain | environment, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def assert_done(kit: Repository, number: int) -> None:
    kit.rest()
    assert "Done" in kit.status(number)
    assert not kit.pull()["draft"]
    assert kit.check()["conclusion"] == "success"


def mode(kit: Repository, path: str) -> str:
    return kit.git("ls-tree", kit.pull()["head"]["sha"], path).decode().split()[0]


def test_work_on_other_branches_and_behind_hooks_is_found(world: World) -> None:
    branch, detached = world.repository(README), world.repository(README)
    hooks = world.repository(README)
    push_tree(
        hooks,
        "mkdir .hooks && printf '%s' \"$HOOK\" > .hooks/pre-commit && chmod +x .hooks/pre-commit",
        HOOK=HOOK,
    )
    numbers = [
        branch.start("other_branch_uncommitted"),
        detached.start("detached_head"),
        hooks.start("hooks"),
    ]
    for kit, number, paths in zip(
        (branch, detached, hooks),
        numbers,
        (["fix.txt", "second.txt"], ["fix.txt"], ["binomial.py"]),
        strict=True,
    ):
        assert_done(kit, number)
        assert kit.changed() == paths
        assert kit.branches() == {"main", kit.pull()["head"]["ref"]}
    assert branch.file("second.txt") == b"not committed\n"
    assert b"# formatted" not in hooks.file("binomial.py")


def test_bytes_modes_and_names_pass_untouched_whatever_the_operators_git_is_set_to(world: World) -> None:
    """CRLF, mixed ends, BOM, Latin-1, modes, links, LFS pointers without the LFS program."""
    kit = world.repository(README)
    push_tree(
        kit,
        "mkdir -p src docs/v2 data && printf 'a\\r\\nb\\r\\nc\\r\\n' > win.txt && printf 'a\\nb\\r\\nc\\nd' > src/mixed.txt"
        " && printf '\\357\\273\\277using x;\\r\\n' > src/bom.cs && printf 'caf\\351\\n' > src/latin.txt"
        " && printf '10%%\\r20%%\\r' > log.txt && printf 'echo hi\\n' > tool.sh && chmod 755 tool.sh"
        " && touch docs/v2/page && ln -s v2 docs/latest && printf '%s' \"$POINTER\" > data/model.bin"
        " && printf '*.bin filter=lfs diff=lfs merge=lfs -text\\n' > .gitattributes",
        POINTER=LFS_POINTER,
    )
    normal = world.repository(README | {"tools/CODEOWNERS_parser.py": "x = 1\n"})
    push_tree(
        normal,
        "printf 'a\\r\\nb\\r\\n' > old.txt && git -c core.autocrlf=false add old.txt"
        " && printf '* text=auto\\n' > .gitattributes",
    )
    edit = shell(
        world, "line_ends",
        "sed -i '2s/b/B/' win.txt && sed -i '2s/b/B/' src/mixed.txt",
        "printf '#!/bin/sh\\n' > run.sh && chmod 755 run.sh",
    )  # fmt: skip
    # Names that only begin like protected ones.
    command = "echo 'y = 2' >> tools/CODEOWNERS_parser.py && mkdir .github && echo x > .github/notes.md"
    one, two = kit.start(edit), normal.start(shell(world, "nearly_protected", command))
    assert_done(kit, one)
    assert kit.changed() == ["run.sh", "src/mixed.txt", "win.txt"]
    pull = kit.pull()
    stat = (
        kit.git("diff", "--numstat", f"{pull['base']['sha']}...{pull['head']['sha']}").decode().splitlines()
    )
    assert sorted(stat) == ["1\t0\trun.sh", "1\t1\tsrc/mixed.txt", "1\t1\twin.txt"]
    assert kit.file("win.txt") == b"a\r\nB\r\nc\r\n"
    assert kit.file("src/mixed.txt") == b"a\nB\r\nc\nd"
    assert [mode(kit, path) for path in ("run.sh", "tool.sh", "docs/latest")] == [
        "100755",
        "100755",
        "120000",
    ]
    assert kit.file("data/model.bin").decode() == LFS_POINTER
    assert "LFS" in kit.status(one)
    assert_done(normal, two)
    assert normal.changed() == [".github/notes.md", "tools/CODEOWNERS_parser.py"]
