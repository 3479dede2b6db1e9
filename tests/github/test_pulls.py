"""Pull requests: against the simulated GitHub, over HTTP."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.errors import Refused, RetryAt, Unexpected
from app.domain.ports import PullRequest
from tests.github.conftest import Stage

BRANCH = "feature/1-count"


async def branch(stage: Stage) -> None:
    sha = await stage.gateway.ensure_start_commit(stage.repo, stage.head(), "Start")
    assert await stage.gateway.ensure_branch(stage.repo, BRANCH, sha)


async def pull(stage: Stage, title: str = "Count", base: str = "main") -> PullRequest:
    return await stage.gateway.ensure_pull(stage.repo, head=BRANCH, base=base, title=title, body="Closes #1")


async def test_pull_request_asked_for_twice_is_one_draft(stage: Stage) -> None:
    await branch(stage)
    first, second = await pull(stage), await pull(stage, "Another title")
    assert first.number == second.number
    assert (first.draft, first.state, first.head_ref, first.base_ref) == (True, "open", BRANCH, "main")
    assert second.title == "Count"
    assert first.head_repo_id == stage.repo.repo_id


async def test_pull_request_applied_but_answered_502_is_adopted(stage: Stage) -> None:
    await branch(stage)
    stage.github.add_fault(method="POST", path="/pulls$", status=502, apply=True, times=1)
    with pytest.raises(RetryAt):
        await pull(stage)
    assert (await pull(stage)).title == "Count"
    assert len(stage.github.pulls(stage.name)) == 1


async def test_two_workers_opening_at_once_share_one_pull_request(stage: Stage) -> None:
    await branch(stage)
    stage.github.add_fault(method="POST", path="/pulls$", delay_s=0.3, times=2)
    other = stage.another_gateway()
    made = await asyncio.gather(
        *(
            gateway.ensure_pull(stage.repo, head=BRANCH, base="main", title="Count", body="x")
            for gateway in (stage.gateway, other)
        )
    )
    await other.aclose()
    assert made[0].number == made[1].number


async def test_pull_request_is_opened_ready_where_the_plan_has_no_drafts(stage: Stage) -> None:
    stage.github.update_repo(stage.name, drafts_allowed=False)
    await branch(stage)
    assert not (await pull(stage)).draft


async def test_closed_pull_request_of_the_branch_is_not_taken_for_the_open_one(stage: Stage) -> None:
    await branch(stage)
    first = await pull(stage)
    await stage.gateway.ensure_pull_closed(stage.repo, first.number)
    await stage.gateway.ensure_pull_closed(stage.repo, first.number)
    assert (await stage.gateway.fetch_pull(stage.repo, first.number)).state == "closed"
    assert (await pull(stage)).number != first.number


async def test_pull_request_without_a_base_or_without_commits_says_so(stage: Stage) -> None:
    await branch(stage)
    with pytest.raises(Refused) as refused:
        await pull(stage, base="nowhere")
    assert refused.value.code == "missing_base"
    stage.github.create_branch(stage.name, "carol", "same")
    with pytest.raises(Refused) as refused:
        await stage.gateway.ensure_pull(stage.repo, head="same", base="main", title="x", body="x")
    assert refused.value.code == "no_commits"


async def test_unchanged_body_is_not_written_again(stage: Stage) -> None:
    await branch(stage)
    made = await pull(stage)
    before = len(stage.writes())
    await stage.gateway.ensure_pull_body(stage.repo, made.number, "Closes #1\r\n")
    assert len(stage.writes()) == before
    await stage.gateway.ensure_pull_body(stage.repo, made.number, "Closes #1, at last")
    assert (await stage.gateway.fetch_pull(stage.repo, made.number)).body == "Closes #1, at last"
    with pytest.raises(Unexpected):
        await stage.gateway.ensure_pull_body(stage.repo, made.number, "x" * 70_000)


async def test_draft_is_made_ready_once(stage: Stage) -> None:
    await branch(stage)
    made = await pull(stage)
    await stage.gateway.ensure_pull_ready(stage.repo, made)
    before = len(stage.writes())
    await stage.gateway.ensure_pull_ready(stage.repo, made)
    assert not (await stage.gateway.fetch_pull(stage.repo, made.number)).draft
    assert len(stage.writes()) == before


async def test_closed_draft_is_not_made_ready(stage: Stage) -> None:
    await branch(stage)
    made = await pull(stage)
    stage.github.close_pull(stage.name, made.number, "carol")
    with pytest.raises(Refused) as refused:
        await stage.gateway.ensure_pull_ready(stage.repo, made)
    assert refused.value.code == "closed"


async def test_merged_pull_request_is_seen_as_merged(stage: Stage) -> None:
    await branch(stage)
    made = await pull(stage)
    await stage.gateway.ensure_pull_ready(stage.repo, made)
    stage.github.push(stage.name, "carol", BRANCH, {"new.txt": "x\n"})
    stage.github.merge_pull(stage.name, made.number, "carol")
    found = await stage.gateway.fetch_pull(stage.repo, made.number)
    assert (found.merged, found.state) == (True, "closed")
    await stage.gateway.ensure_pull_closed(stage.repo, made.number)


async def test_review_is_requested_once_from_a_collaborator(stage: Stage) -> None:
    await branch(stage)
    made = await pull(stage)
    assert await stage.gateway.ensure_review_requested(stage.repo, made.number, "carol")
    before = len(stage.writes())
    assert await stage.gateway.ensure_review_requested(stage.repo, made.number, "Carol")
    assert len(stage.writes()) == before


@pytest.mark.parametrize("login", ["dave", "nobody-of-that-name"])
async def test_review_from_no_collaborator_is_declined_without_an_error(stage: Stage, login: str) -> None:
    await branch(stage)
    made = await pull(stage)
    assert not await stage.gateway.ensure_review_requested(stage.repo, made.number, login)
