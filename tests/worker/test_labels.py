"""What label events ask for when they are repeated, late, about another label, or meant for somebody else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.domain.states import DeliveryState, SpecState
from tests.worker.bench import LABEL, Bench
from tests.worker.test_life import finish, start

EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def only(deliveries: list[dict[str, Any]], action: str) -> list[dict[str, Any]]:
    return [one for one in deliveries if one["payload"].get("action") == action]


def at(moment: str, deliveries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As if the events had happened then, by GitHub's clock."""
    for one in deliveries:
        one["payload"]["issue"]["updated_at"] = moment
    return deliveries


async def reason_of(bench: Bench, guid: str) -> str | None:
    return next(row.reason for row in await bench.deliveries() if row.id == guid)


async def test_late_event_of_a_label_that_was_set_again_since_starts_nothing_with_its_old_text(
    bench: Bench,
) -> None:
    number = bench.open_issue("The old text")
    bench.label(number)
    late = at(EARLIER, only(bench.new_deliveries(), "labeled"))
    bench.unlabel(number)
    bench.github.edit_issue(bench.name, number, "alice", title="Do it")
    bench.label(number)
    await bench.receive(at(LATER, only(bench.new_deliveries(), "labeled")))
    await bench.rest(listen=False)
    await finish(bench, number)
    bench.github.merge_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await bench.rest()
    bench.github.reopen_issue(bench.name, number, "alice")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.COMPLETED
    await bench.receive(late)
    await bench.rest()
    assert (await bench.spec()).title == "Do it"
    assert await reason_of(bench, late[0]["guid"]) == "a later label event was worked on"


async def test_label_set_anew_after_the_end_starts_again_with_the_new_text(bench: Bench) -> None:
    number = await start(bench)
    bench.unlabel(number)
    await bench.rest()
    await bench.pass_time(40)
    bench.github.edit_issue(bench.name, number, "alice", title="Do it better")
    bench.label(number)
    await bench.rest()
    first, second = await bench.specs()
    assert (first.state, first.title) == (SpecState.CANCELLED, "Do it")
    assert (second.state, second.title) == (SpecState.IMPLEMENTING, "Do it better")


async def test_label_off_and_on_while_the_agent_works_ends_the_old_run_before_the_new_one(
    bench: Bench,
) -> None:
    number = await start(bench)
    bench.sandboxes.obeys = False
    bench.unlabel(number)
    await bench.rest()
    bench.label(number)
    for seconds in (1, 1, 40, *[10] * 12):
        bench.clock.add(seconds)
        await bench.rest()
        found = await bench.specs()
        assert len([spec for spec in found if spec.state is not SpecState.CANCELLED]) <= 1
        if found[-1].state is SpecState.IMPLEMENTING and len(found) == 2:
            break
    first, second = await bench.specs()
    assert first.state is SpecState.CANCELLED
    assert second.state is SpecState.IMPLEMENTING
    assert len(bench.sandboxes.sights) == 1


async def test_two_labels_and_two_people_at_once_make_one_run(bench: Bench) -> None:
    carol = bench.github.open_issue(bench.name, "carol", "Another", "")["user"]["id"]
    number = bench.open_issue()
    bench.label(number, "alice")
    second = bench.new_deliveries()
    twin = json.loads(json.dumps(only(second, "labeled")))
    twin[0]["guid"] += "-carol"
    twin[0]["payload"]["sender"] |= {"login": "carol", "id": carol}
    await bench.receive([*second, *twin])
    bench.github.add_labels(bench.name, number, "carol", "agent")
    await bench.rest()
    spec = await bench.spec()
    assert spec.labeler_login == "alice"
    reasons = [row.reason for row in await bench.deliveries() if row.action == "labeled"]
    assert reasons[0] is None
    assert "is live for this issue" in str(reasons[1])
    assert len(bench.sandboxes.orders) == 1


async def test_renamed_label_is_the_same_label_when_it_is_taken_off(bench: Bench) -> None:
    number = await start(bench)
    bench.github.rename_label(bench.name, "alice", LABEL, "robot: quickly")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    bench.github.remove_label(bench.name, number, "alice", "robot: quickly")
    await bench.rest()
    await bench.pass_time(40)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert "label was removed" in bench.status(number)


async def test_label_renamed_before_the_run_begins_is_still_there(bench: Bench) -> None:
    bench.label(bench.open_issue())
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    bench.github.rename_label(bench.name, "alice", LABEL, "robot: later")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IMPLEMENTING


async def test_another_label_taken_off_leaves_the_run_alone(bench: Bench) -> None:
    number = bench.open_issue()
    bench.github.add_labels(bench.name, number, "alice", "agent:approved", "bug")
    bench.label(number)
    await bench.rest()
    for label in ("agent:approved", "bug"):
        bench.github.remove_label(bench.name, number, "alice", label)
    await bench.rest()
    assert (await bench.spec()).cancel_asked_at is None


@pytest.mark.parametrize(
    ("kind", "app", "starts"),
    [("integration", "999999", False), ("integration", "own", True), ("repository", "5", True)],
)
async def test_delivery_sent_to_the_hook_of_another_app_asks_for_nothing(
    bench: Bench, kind: str, app: str, starts: bool
) -> None:
    bench.label(bench.open_issue())
    [labeled] = only(bench.new_deliveries(), "labeled")
    identity = await bench.parts.identity()
    headers = {
        "x-github-hook-installation-target-type": kind,
        "x-github-hook-installation-target-id": str(identity.app_id) if app == "own" else app,
    }
    await bench.receive([labeled | {"kept_headers": headers}])
    await bench.take_in()
    assert len(await bench.specs()) == int(starts)
    if not starts:
        assert await reason_of(bench, labeled["guid"]) == "sent to the hook of another App"


async def test_old_valid_bodies_sent_again_under_new_numbers_change_nothing(bench: Bench) -> None:
    number = await start(bench)
    await finish(bench, number)
    pull = bench.github.pulls(bench.name)[0]["number"]
    bench.github.merge_pull(bench.name, pull, "alice")
    await bench.rest()
    await bench.pass_time(20)
    everything = [one for one in bench.github.deliveries() if one["guid"] in bench.seen]
    assert len(everything) > 5
    before = len(bench.writes())
    await bench.receive(everything, suffix="-again")
    await bench.rest(listen=False)
    await bench.pass_time(20)
    assert (await bench.spec()).state is SpecState.COMPLETED
    assert len(bench.writes()) == before
    assert all(row.state is not DeliveryState.FAILED for row in await bench.deliveries())


# ---------------------------------------------------------------- a repository's own names


def call_labels(bench: Bench, text: str) -> None:
    bench.github.push(bench.name, "alice", "main", {".github/issuewright.yml": text})


async def test_repository_names_its_labels_then_those_start_work_and_the_operators_do_not(
    bench: Bench,
) -> None:
    call_labels(bench, "labels:\n  quick: robot please\n")
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    assert await bench.specs() == []
    bench.github.add_labels(bench.name, number, "alice", "Robot Please")
    await bench.rest()
    assert (await bench.spec()).trigger_label == "Robot Please"
    bench.unlabel(number)
    await bench.rest()
    assert (await bench.spec()).cancel_asked_at is None
    bench.github.remove_label(bench.name, number, "alice", "Robot Please")
    await bench.rest()
    assert (await bench.spec()).cancel_reason == "label_removed"


async def test_repository_renames_its_labels_then_it_counts_within_a_minute(bench: Bench) -> None:
    first = bench.open_issue()
    bench.github.add_labels(bench.name, first, "alice", "robot")
    await bench.rest()
    call_labels(bench, "labels:\n  quick: robot\n")
    second = bench.open_issue()
    bench.clock.add(61)
    bench.github.add_labels(bench.name, second, "alice", "robot")
    await bench.rest()
    assert [spec.issue_number for spec in await bench.specs()] == [second]


async def test_many_labels_are_set_then_the_settings_file_is_asked_for_once(bench: Bench) -> None:
    await bench.rest()
    before = len(file_reads(bench))
    for name in ("bug", "docs", "later"):
        bench.github.add_labels(bench.name, bench.open_issue(), "alice", name)
    await bench.rest()
    assert len(file_reads(bench)) <= before + 1


def file_reads(bench: Bench) -> list[dict[str, Any]]:
    return [
        one for one in bench.github.requests() if one["path"].endswith("/contents/.github/issuewright.yml")
    ]


async def test_repository_gives_two_labels_one_name_then_one_comment_says_so(bench: Bench) -> None:
    call_labels(bench, "labels:\n  quick: agent\n")
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    assert "two of the labels" in bench.status(number)
    assert bench.sandboxes.orders == {}
