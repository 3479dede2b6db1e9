"""A repository that wants it sees each task of a plan as an issue below the one that is worked on."""

from __future__ import annotations

from typing import Any

from app.domain.states import SpecState
from tests.worker.bench import Bench
from tests.worker.planning import plan, start


async def planned(bench: Bench) -> int:
    bench.github.push(bench.name, "alice", "main", {".github/issuewright.yml": "sub_issues: true\n"})
    number = start(bench)
    await bench.rest()
    await plan(bench)
    return number


async def pass_a_while(bench: Bench) -> None:
    """What is owed below the writes that people wait for."""
    await bench.pass_time(30)


def below(bench: Bench, number: int) -> list[dict[str, Any]]:
    issues = bench.github.repo(bench.name)["issues"]
    return [one for one in issues if one.get("parent_number") == number]


async def test_tasks_are_issues_below_and_are_closed_one_after_another(bench: Bench) -> None:
    number = await planned(bench)
    await pass_a_while(bench)
    found = below(bench, number)
    assert [one["title"] for one in found] == ["T1: Write binomial", "T2: Test binomial"]
    assert [one["state"] for one in found] == ["open", "open"]
    assert "binomial(5, 2) is 10" in found[0]["body"].replace("\\", "")
    assert "After T1." in found[1]["body"]
    await bench.hand_in(text="one\n")
    await bench.rest()
    await pass_a_while(bench)
    assert [one["state"] for one in below(bench, number)] == ["closed", "open"]
    assert below(bench, number)[0]["state_reason"] == "completed"


async def test_not_asked_for_then_there_are_none(bench: Bench) -> None:
    number = start(bench)
    await bench.rest()
    await plan(bench)
    await pass_a_while(bench)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert below(bench, number) == []


async def test_every_answer_is_lost_then_there_is_one_of_each(bench: Bench) -> None:
    for path in ("/issues$", "/sub_issues$"):
        bench.github.add_fault(method="POST", path=path, status=502, apply=True, times=1)
    number = await planned(bench)
    for _ in range(5):
        await pass_a_while(bench)
    assert [one["title"] for one in below(bench, number)] == ["T1: Write binomial", "T2: Test binomial"]
    issues = bench.github.repo(bench.name)["issues"]
    assert len([one for one in issues if "task=T" in (one["body"] or "")]) == 2


async def test_server_that_knows_no_sub_issues_then_they_stand_alone(bench: Bench) -> None:
    bench.github.add_fault(path="/sub_issues$", status=404, times=1000)
    await planned(bench)
    await pass_a_while(bench)
    issues = bench.github.repo(bench.name)["issues"]
    assert len([one for one in issues if "task=T" in (one["body"] or "")]) == 2
    await bench.hand_in(text="one\n")
    await bench.rest()
    await pass_a_while(bench)
    issues = bench.github.repo(bench.name)["issues"]
    assert [one["state"] for one in issues if "task=T" in (one["body"] or "")] == ["closed", "open"]
