"""Somebody else pushes to the branch while an agent is at it: nothing of either is lost, nothing is overwritten."""

from __future__ import annotations

import shutil

import pytest

from app.domain.states import SpecState
from tests.worker.bench import Bench
from tests.worker.test_life import start
from tests.worker.test_pause import pause
from worker.supervise.live_look import LiveLook


def pull(bench: Bench) -> dict[str, str]:
    head: dict[str, str] = bench.github.pulls(bench.name)[0]["head"]
    return head


def text_at(bench: Bench, sha: str, path: str) -> str:
    return bench.git("show", f"{sha}:{path}")


async def test_person_pushes_while_the_agent_works_then_its_result_is_merged_onto_that(bench: Bench) -> None:
    number = await start(bench)
    bench.github.push(bench.name, "carol", pull(bench)["ref"], {"carol.txt": "hers\n"})
    hers = pull(bench)["sha"]
    await bench.hand_in()
    await bench.rest()
    head = pull(bench)["sha"]
    assert text_at(bench, head, "carol.txt") == "hers\n"
    assert text_at(bench, head, "work.txt") == "work\n"
    assert hers in bench.git("rev-list", head).split()
    assert "Done" in bench.status(number)
    assert (await bench.spec()).state is SpecState.IN_REVIEW


async def test_person_pushes_and_no_delivery_tells_then_the_push_of_the_result_finds_out(
    bench: Bench,
) -> None:
    await start(bench)
    bench.github.push(bench.name, "carol", pull(bench)["ref"], {"carol.txt": "hers\n"})
    bench.new_deliveries()
    await bench.hand_in()
    await bench.pass_time(10, 1)
    head = pull(bench)["sha"]
    assert text_at(bench, head, "carol.txt") == "hers\n"
    assert text_at(bench, head, "work.txt") == "work\n"
    assert (await bench.spec()).state is SpecState.IN_REVIEW


async def test_person_replaces_the_head_then_theirs_stays_and_the_result_is_merged_onto_it(
    bench: Bench,
) -> None:
    await start(bench)
    bench.github.push(bench.name, "carol", pull(bench)["ref"], {"carol.txt": "hers\n"}, force=True)
    hers = pull(bench)["sha"]
    await bench.hand_in()
    await bench.rest()
    await bench.pass_time(10, 1)
    head = pull(bench)["sha"]
    assert hers in bench.git("rev-list", head).split()
    assert text_at(bench, head, "work.txt") == "work\n"


async def test_same_file_pushed_by_a_person_then_the_agent_gets_its_work_back_with_its_name(
    bench: Bench,
) -> None:
    await start(bench)
    first = bench.sandboxes.newest
    bench.github.push(bench.name, "carol", pull(bench)["ref"], {"work.txt": "hers\n"})
    hers = pull(bench)["sha"]
    await bench.hand_in(text="mine\n")
    await bench.rest()
    second = bench.sandboxes.newest
    assert second.name != first.name
    assert second.start_sha == hers
    assert b"work.txt" in second.inputs["prompt.md"]
    assert pull(bench)["sha"] == hers
    await bench.hand_in(text="both\n")
    await bench.rest()
    assert text_at(bench, pull(bench)["sha"], "work.txt") == "both\n"


async def test_result_was_merged_with_what_a_person_pushed_then_a_later_round_of_it_is_merged_as_well(
    bench: Bench,
) -> None:
    await start(bench)
    bench.github.push(bench.name, "carol", pull(bench)["ref"], {"carol.txt": "hers\n"})
    await bench.hand_in()
    await bench.rest()
    for round_, text in ((2, "second\n"), (3, "third\n")):
        await bench.hand_in(round_, text)
        await bench.pass_time(10, 1)
        head = pull(bench)["sha"]
        assert (await bench.spec()).state is SpecState.IN_REVIEW
        assert (text_at(bench, head, "work.txt"), text_at(bench, head, "carol.txt")) == (text, "hers\n")


async def test_later_round_conflicts_with_what_a_person_pushed_then_it_becomes_one_more_task(
    bench: Bench,
) -> None:
    await start(bench)
    await bench.hand_in()
    await bench.rest()
    bench.github.push(bench.name, "carol", pull(bench)["ref"], {"work.txt": "hers\n"})
    hers = pull(bench)["sha"]
    await bench.hand_in(2, "second\n")
    await bench.rest()
    spec = await bench.spec()
    assert spec.state is SpecState.IMPLEMENTING
    assert bench.sandboxes.newest.start_sha == hers
    assert pull(bench)["sha"] == hers
    await bench.hand_in(text="both\n")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert text_at(bench, pull(bench)["sha"], "work.txt") == "both\n"


async def test_sandbox_is_lost_after_a_person_pushed_then_the_next_one_starts_from_theirs(
    bench: Bench,
) -> None:
    await start(bench)
    bench.github.push(bench.name, "carol", pull(bench)["ref"], {"carol.txt": "hers\n"})
    await bench.rest()
    bench.sandboxes.lose(bench.sandboxes.newest.name)
    await bench.pass_time(20)
    assert bench.sandboxes.newest.start_sha == pull(bench)["sha"]
    assert len(bench.sandboxes.orders) == 2


@pytest.mark.parametrize("saved", ["a checkpoint", "a result", "nothing"])
@pytest.mark.parametrize("heard", [True, False])
async def test_branch_with_a_persons_commit_is_deleted_while_the_agent_works_then_the_work_ends_and_is_kept(
    bench: Bench, saved: str, heard: bool
) -> None:
    number = await start(bench)
    bench.github.push(bench.name, "carol", pull(bench)["ref"], {"carol.txt": "hers\n"})
    await bench.rest()
    bench.github.delete_branch(bench.name, "carol", pull(bench)["ref"])
    if not heard:
        bench.new_deliveries()
    if saved != "nothing":
        await bench.checkpoint()
    if saved == "a result":
        await bench.hand_in()
    await bench.rest()
    await bench.pass_time(120)
    await LiveLook(bench.parts).look()
    await bench.pass_time(120)
    spec = await bench.spec()
    assert (spec.state, bench.sandboxes.sights) == (SpecState.CANCELLED, {})
    assert ("issuewright specs bundle" in bench.status(number)) == (saved != "nothing")
    assert {run["status"] for run in bench.github.check_runs(bench.name)} == {"completed"}


WORKFLOW = {".github/workflows/ci.yml": "on: push\n"}


async def changed(bench: Bench, how: str) -> None:
    """A person brings a protected file to the branch."""
    number = bench.github.pulls(bench.name)[0]["number"]
    if how == "pushed":
        bench.github.push(bench.name, "carol", pull(bench)["ref"], WORKFLOW)
    elif how == "base merged in":
        bench.github.push(bench.name, "alice", "main", WORKFLOW)
        bench.github.update_branch(bench.name, number, "carol")
    else:
        bench.github.create_branch(bench.name, "alice", "next")
        bench.github.push(bench.name, "alice", "next", WORKFLOW)
        bench.github.retarget_pull(bench.name, number, "carol", "next")
        bench.github.update_branch(bench.name, number, "carol")
    await bench.rest()


@pytest.mark.parametrize("how", ["pushed", "base merged in", "another base merged in"])
async def test_person_brings_protected_files_to_the_branch_then_no_result_is_blamed_for_them(
    bench: Bench, how: str
) -> None:
    number = await start(bench)
    await changed(bench, how)
    await bench.hand_in()
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    bench.sandboxes.end(bench.sandboxes.newest.name, 0)
    await bench.pass_time(15)
    bench.github.comment(bench.name, number, "carol", "One more thing.")
    await bench.rest()
    await bench.hand_in(text="more\n")
    await bench.rest()
    head = pull(bench)["sha"]
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert text_at(bench, head, "work.txt") == "more\n"
    assert text_at(bench, head, ".github/workflows/ci.yml") == "on: push\n"


@pytest.mark.parametrize("how", ["pushed", "base merged in"])
async def test_result_changes_protected_files_that_a_person_brought_then_it_is_refused(
    bench: Bench, how: str
) -> None:
    await start(bench)
    await bench.hand_in()
    await bench.rest()
    bench.sandboxes.end(bench.sandboxes.newest.name, 0)
    await bench.pass_time(15)
    await changed(bench, how)
    bench.github.comment(bench.name, (await bench.spec()).issue_number, "carol", "One more thing.")
    await bench.rest()
    await bench.hand_in(text="on: never\n", file=".github/workflows/ci.yml")
    await bench.rest()
    spec = await bench.spec()
    assert (spec.state, spec.outcome) == (SpecState.FAILED, "push_refused")
    assert "`.github/workflows/ci.yml`" in (spec.outcome_detail or "")


async def test_retry_of_cancelled_work_takes_up_what_was_pushed_since(bench: Bench) -> None:
    number = await start(bench)
    bench.github.comment(bench.name, number, "alice", "/agent stop")
    await bench.rest()
    await bench.pass_time(3, 1)
    bench.github.push(bench.name, "carol", pull(bench)["ref"], {"carol.txt": "hers\n"})
    bench.github.comment(bench.name, number, "alice", "/agent retry")
    await bench.rest()
    assert len(bench.github.pulls(bench.name)) == 1
    assert bench.sandboxes.newest.start_sha == pull(bench)["sha"]


async def test_branch_deleted_before_its_pull_request_is_there_then_it_is_made_again(bench: Bench) -> None:
    open_pull = bench.parts.github.ensure_pull
    deleted: list[str] = []

    async def late(*arguments: object, **named: str) -> object:
        if not deleted:
            deleted.append(named["head"])
            bench.github.delete_branch(bench.name, "carol", named["head"])
        return await open_pull(*arguments, **named)  # type: ignore[arg-type]

    bench.parts.github.ensure_pull = late  # type: ignore[method-assign,assignment]
    await start(bench)
    await bench.pass_time(10, 1)
    assert deleted == [pull(bench)["ref"]]
    assert (await bench.spec()).state is SpecState.IMPLEMENTING


async def test_head_and_base_changed_without_a_word_then_the_look_at_the_live_state_finds_both(
    bench: Bench,
) -> None:
    number = await start(bench)
    bench.github.create_branch(bench.name, "alice", "next")
    bench.github.push(bench.name, "carol", pull(bench)["ref"], {"carol.txt": "hers\n"})
    bench.github.retarget_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "carol", "next")
    bench.new_deliveries()
    await bench.report(1)
    bench.clock.add(601)
    await bench.report(2)
    await LiveLook(bench.parts).look()
    await bench.rest(listen=False)
    spec = await bench.spec()
    assert (spec.head_sha, spec.base_branch) == (pull(bench)["sha"], "next")
    await bench.pass_time(60)
    assert "Somebody else pushed" in bench.status(number)


@pytest.mark.parametrize("state", [SpecState.IMPLEMENTING, SpecState.IN_REVIEW, SpecState.PAUSED])
async def test_look_finds_a_pushed_head_and_its_delivery_comes_late_then_it_is_taken_up_once(
    bench: Bench, state: SpecState
) -> None:
    number = await start(bench)
    if state is SpecState.IN_REVIEW:
        await bench.hand_in()
        await bench.rest()
    if state is SpecState.PAUSED:
        await pause(bench, number)
    bench.new_deliveries()
    bench.github.push(bench.name, "carol", pull(bench)["ref"], {"carol.txt": "hers\n"})
    hers, late = pull(bench)["sha"], bench.new_deliveries()
    assert "synchronize" in {one["payload"]["action"] for one in late}
    bench.clock.add(601)
    if state is SpecState.IMPLEMENTING:
        await bench.report(1)
    await LiveLook(bench.parts).look()
    await bench.rest(listen=False)
    found = await bench.spec()
    assert (found.state, found.head_sha, found.branch_told) == (state, hers, 1)
    await bench.receive(late)
    await bench.receive(late, "-again")
    await bench.rest(listen=False)
    spec = await bench.spec()
    assert (spec.head_sha, spec.branch_told, spec.branch_seen) == (hers, 1, 1)
    assert len([note for note in spec.notes if "Somebody else pushed" in note]) == 1


async def test_person_makes_a_draft_of_it_again_then_a_later_round_leaves_it_a_draft(bench: Bench) -> None:
    await start(bench)
    await bench.hand_in()
    await bench.rest()
    number = bench.github.pulls(bench.name)[0]["number"]
    bench.github.set_draft(bench.name, number, "carol", draft=True)
    await bench.hand_in(2, "more\n")
    await bench.rest()
    assert bench.github.pulls(bench.name)[0]["draft"]
    spec = await bench.spec()
    assert spec.state is SpecState.IN_REVIEW
    assert pull(bench)["sha"] == spec.head_sha


async def test_another_machine_takes_the_result_in_then_it_fetches_the_repository_first(bench: Bench) -> None:
    number = await start(bench)
    shutil.rmtree(bench.parts.home / "mirrors")
    await bench.hand_in()
    await bench.rest()
    await bench.pass_time(10, 1)
    assert text_at(bench, pull(bench)["sha"], "work.txt") == "work\n"
    assert "Done" in bench.status(number)
    assert (await bench.spec()).state is SpecState.IN_REVIEW


async def test_another_machine_takes_the_result_in_after_its_start_was_replaced_then_it_is_kept_and_that_is_said(
    bench: Bench,
) -> None:
    number = await start(bench)
    shutil.rmtree(bench.parts.home / "mirrors")
    bench.github.push(bench.name, "carol", pull(bench)["ref"], {"carol.txt": "hers\n"}, force=True)
    hers = pull(bench)["sha"]
    await bench.hand_in()
    await bench.rest()
    await bench.pass_time(30, 1)
    assert pull(bench)["sha"] == hers
    assert (await bench.spec()).state is SpecState.FAILED
    assert "specs bundle" in bench.status(number)
