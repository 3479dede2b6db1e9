"""Mirror and push over real HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from app.git.mirror import MirrorFailed, update_mirror
from app.git.push import PushRejected, push
from tests.git.conftest import Bench
from tests.git.crafting import Repository, make_repository
from tests.git.git_server import TOKEN, GitServer


@pytest.fixture
def served(git_server: GitServer) -> Repository:
    repository = make_repository(git_server.root / "hello.git")
    first = repository.commit({"a.txt": b"a\n"})
    repository.branch("main", first)
    repository.branch("feature/1-x", repository.commit({"a.txt": b"a\n"}, first, message="Start"))
    repository.ref("refs/pull/7/head", repository.commit({"evil.txt": b"x\n"}))
    return repository


def refs(repository: Repository) -> dict[str, str]:
    lines = repository.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split(" ") for line in lines)


def heads(repository: Repository) -> dict[str, str]:
    return {name: sha for name, sha in refs(repository).items() if name.startswith("refs/heads/")}


def everything_under(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())


# ------------------------------------------------------------------ mirror


async def test_first_call_clones_the_branches_only_and_keeps_no_credential(
    tmp_path: Path, git_server: GitServer, served: Repository
) -> None:
    mirror = Repository(tmp_path / "cache" / "42.git")
    await update_mirror(mirror.path, git_server.repository("hello.git"), TOKEN)
    assert refs(mirror) == heads(served)
    left = everything_under(mirror.path.parent)
    assert TOKEN.encode() not in left
    assert b"x-access-token" not in left
    assert git_server.url.encode() not in left


async def test_later_call_adds_moves_and_prunes_branches(
    tmp_path: Path, git_server: GitServer, served: Repository
) -> None:
    mirror = Repository(tmp_path / "42.git")
    url = git_server.repository("hello.git")
    await update_mirror(mirror.path, url, TOKEN)
    old = served.head("feature/1-x")
    served.branch("main", served.commit({"b.txt": b"b\n"}))
    (served.path / "refs/heads/feature/1-x").unlink()
    (served.path / "refs/heads/feature").rmdir()
    served.branch("feature", old)
    await update_mirror(mirror.path, url, TOKEN)
    assert refs(mirror) == heads(served)
    assert mirror.git("cat-file", "-t", old) == "commit"


async def test_two_callers_at_once_end_with_one_whole_mirror(
    tmp_path: Path, git_server: GitServer, served: Repository
) -> None:
    path = tmp_path / "42.git"
    url = git_server.repository("hello.git")
    await asyncio.gather(update_mirror(path, url, TOKEN), update_mirror(path, url, TOKEN))
    assert refs(Repository(path)) == heads(served)
    assert not list(tmp_path.glob(".tmp-*"))


async def test_residue_of_killed_calls_is_removed(
    tmp_path: Path, git_server: GitServer, served: Repository
) -> None:
    mirror = Repository(tmp_path / "42.git")
    url = git_server.repository("hello.git")
    await update_mirror(mirror.path, url, TOKEN)
    (mirror.path / "refs/heads/main.lock").write_text("")
    (mirror.path / "packed-refs.lock").write_text("")
    (mirror.path / "objects/pack/tmp_pack_x").write_text("half")
    (tmp_path / ".tmp-42.git-dead" / "objects").mkdir(parents=True)
    served.branch("main", served.commit({"b.txt": b"b\n"}))
    await update_mirror(mirror.path, url, TOKEN)
    assert refs(mirror) == heads(served)
    assert [path.name for path in mirror.path.rglob("tmp_*")] == []
    assert not list(tmp_path.glob(".tmp-*"))


@pytest.mark.parametrize("damage", ["empty directory", "file", "no objects", "truncated pack"])
async def test_damaged_mirror_is_cloned_anew(
    tmp_path: Path, git_server: GitServer, served: Repository, damage: str
) -> None:
    mirror = Repository(tmp_path / "42.git")
    url = git_server.repository("hello.git")
    if damage == "empty directory":
        mirror.path.mkdir()
    elif damage == "file":
        mirror.path.write_text("x")
    else:
        await update_mirror(mirror.path, url, TOKEN)
        for file in [path for path in (mirror.path / "objects").rglob("*") if path.is_file()]:
            file.chmod(0o644)
            if damage == "no objects":
                file.unlink()
            else:
                file.write_bytes(file.read_bytes()[:20])
        served.branch("main", served.commit({"b.txt": b"b\n"}, served.head("main")))
    await update_mirror(mirror.path, url, TOKEN)
    assert refs(mirror) == heads(served)
    assert mirror.git("cat-file", "-t", "refs/heads/main") == "commit"


async def test_killed_in_the_middle_the_next_call_finishes(
    tmp_path: Path, git_server: GitServer, served: Repository
) -> None:
    served.branch("big", served.commit({f"f{n}": os.urandom(200_000) for n in range(20)}))
    mirror = Repository(tmp_path / "42.git")
    url = git_server.repository("hello.git")
    code = "import asyncio, sys, pathlib; from app.git.mirror import update_mirror as u; "
    code += "asyncio.run(u(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]))"
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(mirror.path), url, TOKEN, cwd=Path(__file__).parents[2]
    )
    async with asyncio.timeout(20):
        while not list(tmp_path.glob(".tmp-*/objects")) and not mirror.path.exists():
            await asyncio.sleep(0.005)
    victim.send_signal(signal.SIGKILL)
    await victim.wait()
    await update_mirror(mirror.path, url, TOKEN)
    assert refs(mirror) == heads(served)


async def test_renamed_repository_is_found_at_its_new_name(
    tmp_path: Path, git_server: GitServer, served: Repository
) -> None:
    git_server.renamed["old.git"] = "hello.git"
    mirror = Repository(tmp_path / "42.git")
    await update_mirror(mirror.path, git_server.repository("old.git"), TOKEN)
    assert refs(mirror) == heads(served)


async def test_redirect_to_another_host_is_not_followed(
    tmp_path: Path, git_server: GitServer, served: Repository
) -> None:
    git_server.elsewhere = git_server.url.replace("127.0.0.1", "localhost")
    with pytest.raises(MirrorFailed) as caught:
        await update_mirror(tmp_path / "42.git", git_server.repository("hello.git"), TOKEN)
    assert all(headers["host"].startswith("127.0.0.1") for _, headers in git_server.requests)
    assert caught.value.kind == "gone"


async def test_wrong_token_is_denied_and_not_repeated_in_the_message(
    tmp_path: Path, git_server: GitServer, served: Repository
) -> None:
    wrong = "ghs_" + "wr0ng" * 8
    with pytest.raises(MirrorFailed) as caught:
        await update_mirror(tmp_path / "42.git", git_server.repository("hello.git"), wrong)
    assert caught.value.kind == "denied"
    assert wrong not in caught.value.message


async def test_unknown_repository_is_gone(tmp_path: Path, git_server: GitServer) -> None:
    with pytest.raises(MirrorFailed) as caught:
        await update_mirror(tmp_path / "42.git", git_server.repository("none.git"), TOKEN)
    assert caught.value.kind == "gone"


@pytest.mark.parametrize(
    ("status", "kind"), [(500, "retry"), (503, "retry"), (429, "retry"), (403, "denied"), (451, "gone")]
)
async def test_servers_answer_decides_the_kind(
    tmp_path: Path, git_server: GitServer, status: int, kind: str
) -> None:
    git_server.status = status
    with pytest.raises(MirrorFailed) as caught:
        await update_mirror(tmp_path / "42.git", git_server.repository("hello.git"), TOKEN)
    assert caught.value.kind == kind


async def test_nobody_listening_is_a_retry(tmp_path: Path) -> None:
    with pytest.raises(MirrorFailed) as caught:
        await update_mirror(tmp_path / "42.git", "http://127.0.0.1:9/hello.git", TOKEN)
    assert caught.value.kind == "retry"


async def test_repository_without_a_branch_is_empty(tmp_path: Path, git_server: GitServer) -> None:
    make_repository(git_server.root / "empty.git")
    with pytest.raises(MirrorFailed) as caught:
        await update_mirror(tmp_path / "42.git", git_server.repository("empty.git"), TOKEN)
    assert caught.value.kind == "empty"


async def test_time_limit_is_a_retry(tmp_path: Path, git_server: GitServer, served: Repository) -> None:
    with pytest.raises(MirrorFailed) as caught:
        await update_mirror(tmp_path / "42.git", git_server.repository("hello.git"), TOKEN, timeout_s=0.001)
    assert caught.value.kind == "retry"


@pytest.mark.parametrize(
    "url", ["ext::sh -c 'touch RAN'", "file:///etc", "ssh://127.0.0.1/x", "--upload-pack=touch RAN"]
)
async def test_other_transports_and_options_are_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(MirrorFailed):
        await update_mirror(tmp_path / "42.git", url, "")
    assert not list(tmp_path.rglob("RAN"))


# ------------------------------------------------------------------ push

BRANCH = "feature/1-x"


@pytest.fixture
def branch(bench: Bench, git_server: GitServer) -> Repository:
    """The served copy of the bench's mirror; results are pushed onto its feature branch."""
    served = make_repository(git_server.root / "hello.git")
    served.git("fetch", "-q", str(bench.mirror.path), "+refs/heads/*:refs/heads/*")
    return served


async def send(
    bench: Bench, server: GitServer, sha: str, expected: str | None = None, branch: str = BRANCH
) -> str:
    return await push(
        bench.quarantine.path, server.repository("hello.git"), sha, branch, expected or bench.start, TOKEN
    )


async def rejection(bench: Bench, server: GitServer, sha: str, expected: str | None = None) -> PushRejected:
    with pytest.raises(PushRejected) as caught:
        await send(bench, server, sha, expected)
    assert TOKEN not in str(caught.value)
    return caught.value


async def test_result_lands_on_its_branch_and_nowhere_else(
    bench: Bench, git_server: GitServer, branch: Repository
) -> None:
    head = bench.work({"big.bin": os.urandom(2_000_000)})
    await bench.open(head)
    before = refs(branch)
    assert await send(bench, git_server, head) == head
    assert refs(branch) == {**before, f"refs/heads/{BRANCH}": head}
    assert await send(bench, git_server, head) == head
    branch.git("fsck", "--connectivity-only")


async def test_push_whose_answer_was_lost_is_a_success(
    bench: Bench, git_server: GitServer, branch: Repository
) -> None:
    head = bench.work({"a": b"a"})
    await bench.open(head)
    git_server.lose_answer_to = "git-receive-pack"
    assert await send(bench, git_server, head) == head
    assert branch.head(BRANCH) == head


async def test_branch_that_stands_elsewhere_is_moved(
    bench: Bench, git_server: GitServer, branch: Repository
) -> None:
    head = bench.work({"a": b"a"})
    await bench.open(head)
    person = branch.commit({"person.txt": b"x"}, bench.start)
    branch.branch(BRANCH, person)
    assert (await rejection(bench, git_server, head)).code == "moved"
    assert branch.head(BRANCH) == person


async def test_branch_that_is_gone_is_moved_and_not_made_again(
    bench: Bench, git_server: GitServer, branch: Repository
) -> None:
    head = bench.work({"a": b"a"})
    await bench.open(head)
    branch.git("update-ref", "-d", f"refs/heads/{BRANCH}")
    assert (await rejection(bench, git_server, head)).code == "moved"
    assert branch.head(BRANCH) == ""


async def test_commit_that_does_not_continue_the_branch_is_not_sent(
    bench: Bench, git_server: GitServer, branch: Repository
) -> None:
    await bench.open(bench.work({"a": b"a"}))
    assert (await rejection(bench, git_server, bench.base)).code == "rejected"
    assert branch.head(BRANCH) == bench.start


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("error: GH006: Protected branch update failed", "protected"),
        ("error: GH013: Repository rule violations found", "protected"),
        ("error: GH013: Repository rule violations found - Push cannot contain secrets", "secret"),
        ("refusing to allow a GitHub App to create or update workflow `.github/workflows/x.yml`", "workflow"),
        ("GH001: Large files detected", "rejected"),
    ],
)
async def test_refusal_by_the_server_is_named_and_quoted(
    bench: Bench, git_server: GitServer, branch: Repository, words: str, code: str
) -> None:
    hook = branch.path / "hooks" / "pre-receive"
    hook.parent.mkdir()
    hook.write_text(
        f"#!/bin/sh\ncat >/dev/null\nprintf '%s\\n' '{words}' >&2\nprintf '\\033[31m{TOKEN}\\n' >&2\nexit 1\n"
    )
    hook.chmod(0o755)
    head = bench.work({"a": b"a"})
    await bench.open(head)
    refused = await rejection(bench, git_server, head)
    assert refused.code == code
    assert words in refused.message
    assert "\x1b" not in refused.message
    assert branch.head(BRANCH) == bench.start


@pytest.mark.parametrize(("status", "code"), [(403, "denied"), (404, "denied"), (502, "retry")])
async def test_unreachable_remote_is_classified(
    bench: Bench, git_server: GitServer, branch: Repository, status: int, code: str
) -> None:
    head = bench.work({"a": b"a"})
    await bench.open(head)
    git_server.status = status
    assert (await rejection(bench, git_server, head)).code == code


@pytest.mark.parametrize(
    "name", ["../main", "-x:y", "a b", "x:refs/heads/main", "", "a..b", "+x", "x\nrefs/heads/y"]
)
async def test_name_that_is_no_branch_is_an_error_before_anything_is_sent(
    bench: Bench, git_server: GitServer, branch: Repository, name: str
) -> None:
    head = bench.work({"a": b"a"})
    await bench.open(head)
    if name == "+x":
        with pytest.raises(PushRejected):
            await send(bench, git_server, head, branch=name)
    else:
        with pytest.raises((ValueError, PushRejected)):
            await send(bench, git_server, head, branch=name)
    assert branch.head(BRANCH) == bench.start
    assert all("receive-pack" not in path for path, _ in git_server.requests)
