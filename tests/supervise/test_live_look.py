"""What a look at GitHub's live state must not take for something that nobody told."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.states import SpecState
from tests.worker.bench import LABEL, Bench
from tests.worker.test_labels import only
from tests.worker.test_life import start
from worker.supervise.live_look import LiveLook

LATER_S = 700


async def hear_installation(bench: Bench, installation_id: int | None = None) -> None:
    wanted = installation_id or bench.installation_id
    await bench.receive(
        [
            one for one in bench.github.deliveries("installation")
            if one["payload"]["installation"]["id"] == wanted
        ]
    )  # fmt: skip
    await bench.rest()


async def look(bench: Bench, times: int = 1) -> None:
    """Each long enough after the last, and after what happened before."""
    looking = LiveLook(bench.parts)
    for _ in range(times):
        bench.clock.add(LATER_S)
        await looking.look()
        await bench.rest(listen=False)


def notices(bench: Bench, number: int) -> list[str]:
    return [text for text in bench.comments(number) if "never arrived" in text]


# ------------------------------------------------------------ live work


async def test_label_was_renamed_then_the_work_goes_on(bench: Bench) -> None:
    await start(bench)
    bench.github.rename_label(bench.name, "alice", LABEL, "robot: quickly")
    await look(bench)
    assert (await bench.spec()).cancel_asked_at is None


async def test_issue_was_deleted_then_the_work_ends_with_that_reason(bench: Bench) -> None:
    number = await start(bench)
    bench.github.delete_issue(bench.name, number, "alice")
    await look(bench)
    assert (await bench.spec()).cancel_reason == "issue_deleted"


@pytest.mark.parametrize("how", ["uninstall", "suspend"])
async def test_access_was_taken_away_then_the_work_ends_with_that_reason(bench: Bench, how: str) -> None:
    await start(bench)
    bench.clock.add(LATER_S)
    getattr(bench.github, how)(bench.installation_id, "alice")
    await LiveLook(bench.parts).look()
    assert (await bench.spec()).cancel_reason == "access_lost"


# ------------------------------------------------------------ labels


async def test_refused_label_then_another_one_taken_off_then_nothing_is_said_of_a_lost_event(
    bench: Bench,
) -> None:
    await hear_installation(bench)
    number = bench.open_issue()
    bench.github.add_labels(bench.name, number, "alice", "bug")
    bench.label(number, by="bob")
    await bench.rest()
    bench.github.remove_label(bench.name, number, "alice", "bug")
    await bench.rest()
    await look(bench, 2)
    assert notices(bench, number) == []


async def test_label_older_than_the_installation_then_nothing_is_said(bench: Bench) -> None:
    bench.github.create_org("late-org", ["alice"])
    name = bench.github.create_repo("late-org", "kit", {"README.md": "x"}, private=False, by="alice")[
        "full_name"
    ]
    number = bench.github.open_issue(name, "alice", "Old", labels=[LABEL])["number"]
    bench.clock.add(60)
    made = bench.github.install(bench.app_id, "late-org", by="alice")
    await hear_installation(bench, made["id"])
    await look(bench, 2)
    assert bench.github.issue(name, number)["comment_list"] == []


async def test_label_of_a_failed_run_stays_on_the_issue_then_nothing_is_said(bench: Bench) -> None:
    await hear_installation(bench)
    number = await start(bench)
    for _ in range(3):
        bench.sandboxes.end(bench.sandboxes.newest.name, 137)
        await bench.pass_time(30)
    assert (await bench.spec()).state is SpecState.FAILED
    await look(bench, 2)
    assert notices(bench, number) == []


async def test_label_event_is_stored_and_not_read_yet_then_nothing_is_said(bench: Bench) -> None:
    await hear_installation(bench)
    number = bench.open_issue()
    bench.label(number)
    await bench.receive(bench.new_deliveries())
    bench.clock.add(LATER_S)
    await LiveLook(bench.parts).look()
    await bench.rest(listen=False)
    assert notices(bench, number) == []
    assert (await bench.spec()).state is SpecState.IMPLEMENTING


async def test_event_arrives_after_the_notice_then_the_work_starts_all_the_same(bench: Bench) -> None:
    await hear_installation(bench)
    number = bench.open_issue()
    bench.label(number)
    await look(bench)
    assert len(notices(bench, number)) == 1
    await bench.receive(only(bench.new_deliveries(), "labeled"))
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IMPLEMENTING


async def test_second_label_is_lost_as_well_then_it_is_said_again(bench: Bench) -> None:
    await hear_installation(bench)
    number = bench.open_issue()
    bench.label(number)
    await look(bench, 2)
    assert len(notices(bench, number)) == 1
    bench.unlabel(number)
    bench.github.advance_clock(30)
    bench.label(number)
    await look(bench, 2)
    assert len(notices(bench, number)) == 2


async def test_more_repositories_than_one_look_takes_then_they_take_turns(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.supervise.live_look.MAX_REPOSITORIES", 1)
    owner = bench.name.split("/", maxsplit=1)[0]
    for name in ("second", "third"):
        bench.github.create_repo(owner, name, {"README.md": "x"}, private=False, by="alice")
    await hear_installation(bench)
    seen: list[set[str]] = []
    looking = LiveLook(bench.parts)
    for _ in range(4):
        before = last_request(bench)
        bench.clock.add(LATER_S)
        await looking.look()
        seen.append({one["path"] for one in listings(bench, before)})
    assert [len(paths) for paths in seen] == [1, 1, 1, 1]
    assert seen[0] != seen[1] != seen[2]
    assert seen[3] == seen[0]
    assert len(set.union(*seen)) == 3


def last_request(bench: Bench) -> int:
    return max(int(one["number"]) for one in bench.github.requests())


def listings(bench: Bench, after: int) -> list[dict[str, Any]]:
    return [
        one for one in bench.github.requests(method="GET", after=after) if one["path"].endswith("/issues")
    ]
