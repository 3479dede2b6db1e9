"""Branches, start commits and files: against the simulated GitHub, over HTTP."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from app.domain.errors import Refused, RetryAt
from tests.github.conftest import Stage

BRANCH = "feature/1-count"


async def start(stage: Stage) -> str:
    return await stage.gateway.ensure_start_commit(stage.repo, stage.head(), "Start work on #1")


async def test_start_commit_is_empty_signed_and_on_the_base(stage: Stage) -> None:
    sha = await start(stage)
    assert await stage.gateway.ensure_branch(stage.repo, BRANCH, sha)
    branch = await stage.gateway.fetch_branch(stage.repo, BRANCH)
    assert branch is not None
    assert branch.sha == sha != stage.head()


async def test_branch_asked_for_twice_is_made_once(stage: Stage) -> None:
    sha = await start(stage)
    assert await stage.gateway.ensure_branch(stage.repo, BRANCH, sha)
    assert await stage.gateway.ensure_branch(stage.repo, BRANCH, sha)
    assert [one["path"] for one in stage.writes()].count(f"/repos/{stage.name}/git/refs") == 1


async def test_branch_applied_but_answered_502_is_found_again(stage: Stage) -> None:
    sha = await start(stage)
    stage.github.add_fault(method="POST", path="/git/refs$", status=502, apply=True, times=1)
    with pytest.raises(RetryAt):
        await stage.gateway.ensure_branch(stage.repo, BRANCH, sha)
    assert await stage.gateway.ensure_branch(stage.repo, BRANCH, sha)


async def test_two_workers_racing_for_a_branch_agree_on_who_has_it(stage: Stage) -> None:
    mine, other_sha = await start(stage), stage.head()
    stage.github.add_fault(method="POST", path="/git/refs$", delay_s=0.3, times=2)
    other = stage.another_gateway()
    won = await asyncio.gather(
        stage.gateway.ensure_branch(stage.repo, BRANCH, mine),
        other.ensure_branch(stage.repo, BRANCH, other_sha),
    )
    await other.aclose()
    assert sorted(won) == [False, True]


async def test_branch_of_a_person_is_left_alone(stage: Stage) -> None:
    stage.github.create_branch(stage.name, "carol", BRANCH)
    before = stage.head(BRANCH)
    assert not await stage.gateway.ensure_branch(stage.repo, BRANCH, await start(stage))
    assert stage.head(BRANCH) == before


@pytest.mark.parametrize(("taken", "wanted"), [("feature", BRANCH), (f"{BRANCH}/part", BRANCH)])
async def test_branch_in_the_way_is_named(stage: Stage, taken: str, wanted: str) -> None:
    stage.github.create_branch(stage.name, "carol", taken)
    with pytest.raises(Refused) as refused:
        await stage.gateway.ensure_branch(stage.repo, wanted, await start(stage))
    assert refused.value.code == "ref_blocked"
    assert f"`{taken}`" in str(refused.value)


async def test_impossible_branch_name_is_refused_without_a_branch_to_blame(stage: Stage) -> None:
    with pytest.raises(Refused) as refused:
        await stage.gateway.ensure_branch(stage.repo, "feature/a..b", stage.head())
    assert refused.value.code != "ref_blocked"


async def test_branch_is_deleted_only_where_we_left_it(stage: Stage) -> None:
    sha = await start(stage)
    await stage.gateway.ensure_branch(stage.repo, BRANCH, sha)
    stage.github.push(stage.name, "carol", BRANCH, {"more.txt": "more\n"})
    assert not await stage.gateway.ensure_branch_deleted(stage.repo, BRANCH, sha)
    moved = stage.head(BRANCH)
    assert await stage.gateway.ensure_branch_deleted(stage.repo, BRANCH, moved)
    assert await stage.gateway.ensure_branch_deleted(stage.repo, BRANCH, moved)
    assert await stage.gateway.fetch_branch(stage.repo, BRANCH) is None


async def test_branch_with_odd_characters_is_read_by_its_exact_name(stage: Stage) -> None:
    name = "release/1.0+x(y)#2"
    stage.github.create_branch(stage.name, "carol", name)
    found = await stage.gateway.fetch_branch(stage.repo, name)
    assert found is not None
    assert found.sha == stage.head()
    assert await stage.gateway.fetch_branch(stage.repo, "release/1.0") is None
    assert await stage.gateway.fetch_refs(stage.repo, "release/") == (name,)


async def test_more_branches_than_a_page_are_all_listed(stage: Stage) -> None:
    head = stage.head()
    lines = "".join(f"create refs/heads/feature/n{number} {head}\n" for number in range(105))
    subprocess.run(["git", "update-ref", "--stdin"], cwd=stage.bare, input=lines, text=True, check=True)
    assert len(await stage.gateway.fetch_refs(stage.repo, "feature/")) == 105


async def test_empty_repository_is_said_to_be_empty(stage: Stage) -> None:
    empty = await stage.add_repo(f"{stage.repo.name}-empty")
    with pytest.raises(Refused) as refused:
        await stage.gateway.fetch_branch(empty, "main")
    assert refused.value.code == "empty_repository"
    assert await stage.gateway.fetch_refs(empty, "") == ()
    assert await stage.gateway.fetch_file(empty, "README.md", "main") is None


async def test_files_are_read_at_a_commit(stage: Stage) -> None:
    before = stage.head()
    stage.github.push(stage.name, "carol", "main", {"README.md": "# Später\n"})
    assert await stage.gateway.fetch_file(stage.repo, "README.md", before) == "# Demo\n"
    assert await stage.gateway.fetch_file(stage.repo, "README.md", stage.head()) == "# Später\n"


async def test_missing_file_folder_or_climbing_path_is_no_file(stage: Stage) -> None:
    for path in ("nothing.txt", "docs", "docs/../README.md"):
        assert await stage.gateway.fetch_file(stage.repo, path, "main") is None


async def test_files_of_a_folder_are_listed_without_its_folders(stage: Stage) -> None:
    assert await stage.gateway.fetch_tree_paths(stage.repo, "", "main") == ("README.md",)
    assert await stage.gateway.fetch_tree_paths(stage.repo, "docs", "main") == ("a.md",)
    assert await stage.gateway.fetch_tree_paths(stage.repo, "nowhere", "main") == ()
