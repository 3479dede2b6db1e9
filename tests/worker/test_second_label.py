"""A label is set again on an issue whose work has ended, and a comment made after that is heard of before the label: it
belongs to the work that the label begins.
"""

from __future__ import annotations

from typing import Any

import pytest

from app.db.models import Spec
from app.domain.states import SpecState
from tests.worker.bench import Bench
from tests.worker.test_comments import messages, reactions, replies, say
from tests.worker.test_life import start
from tests.worker.test_told import fail
from worker.supervise.live_look import LiveLook

Sent = list[dict[str, Any]]


async def failed(bench: Bench) -> int:
    return await fail(bench)


async def cancelled(bench: Bench) -> int:
    number = await start(bench)
    say(bench, number, "/agent stop now")
    await bench.pass_time(60)
    return number


async def merged(bench: Bench) -> int:
    number = await start(bench)
    await bench.hand_in()
    await bench.rest()
    bench.github.merge_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await bench.pass_time(60)
    bench.github.reopen_issue(bench.name, number, "alice")
    return number


ENDS = {failed: SpecState.FAILED, cancelled: SpecState.CANCELLED, merged: SpecState.COMPLETED}


def set_again(bench: Bench, number: int, by: str = "alice") -> Sent:
    """The label goes and comes back; what tells of its coming back is still to be heard."""
    bench.unlabel(number)
    bench.github.advance_clock(60)
    bench.label(number, by)
    return [one for one in bench.new_deliveries() if one["payload"].get("action") == "labeled"]


async def hear(bench: Bench, sent: Sent, suffix: str = "") -> None:
    await bench.receive(sent, suffix)
    await bench.rest(listen=False)


async def newest(bench: Bench) -> Spec:
    return (await bench.specs())[-1]


async def said_to(bench: Bench, spec: Spec) -> list[str]:
    return [row.content for row in await messages(bench) if row.spec_id == spec.id]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
async def test_comment_is_heard_before_the_second_label_it_follows_then_the_new_work_gets_it_once(
    bench: Bench, end: Any
) -> None:
    number = await end(bench)
    await bench.rest()
    label, before = set_again(bench, number), replies(bench, number)
    comment = say(bench, number, "Use tabs.")
    said = bench.new_deliveries()
    await hear(bench, said)
    [old] = await bench.specs()
    assert old.state is ENDS[end]
    await hear(bench, label)
    for suffix in ("-again", "-and-again"):
        await hear(bench, said, suffix)
        await hear(bench, label, suffix)
    old, new = await bench.specs()
    assert (old.state, new.state) == (ENDS[end], SpecState.IMPLEMENTING)
    assert "Use tabs." not in await said_to(bench, old)
    assert await said_to(bench, new) == ["Use tabs."]
    assert reactions(bench, comment) == ["eyes"]
    assert replies(bench, number) == before


async def test_command_is_heard_before_the_second_label_it_follows_then_the_new_work_obeys_it(
    bench: Bench,
) -> None:
    number = await failed(bench)
    label = set_again(bench, number)
    say(bench, number, "/agent stop now")
    await hear(bench, bench.new_deliveries())
    await hear(bench, label)
    await bench.pass_time(60)
    assert [spec.state for spec in await bench.specs()] == [SpecState.FAILED, SpecState.CANCELLED]


async def test_earlier_work_is_being_ended_by_its_label_then_what_follows_the_second_one_is_not_its_own(
    bench: Bench,
) -> None:
    number = await start(bench)
    bench.unlabel(number)
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    assert (await bench.spec()).cancel_asked_at is not None
    bench.github.advance_clock(60)
    bench.label(number)
    say(bench, number, "Use tabs.")
    sent = bench.new_deliveries()
    await bench.receive([one for one in sent if one["event"] == "issue_comment"])
    await bench.take_in()
    await bench.receive(sent)
    await bench.pass_time(90)
    old, new = await bench.specs()
    assert old.state is SpecState.CANCELLED
    assert await said_to(bench, old) == []
    assert await said_to(bench, new) == ["Use tabs."]


async def test_second_label_was_refused_then_a_comment_takes_the_earlier_work_up_again(bench: Bench) -> None:
    number = await failed(bench)
    label = set_again(bench, number, by="bob")
    await hear(bench, label)
    say(bench, number, "Use tabs.")
    await hear(bench, bench.new_deliveries())
    spec = await bench.spec()
    assert spec.state in {SpecState.QUEUED, SpecState.IMPLEMENTING}
    assert await said_to(bench, spec) == ["Use tabs."]


async def test_second_label_is_gone_again_then_a_comment_takes_the_earlier_work_up_again(
    bench: Bench,
) -> None:
    number = await failed(bench)
    set_again(bench, number)
    bench.unlabel(number)
    say(bench, number, "Use tabs.")
    await hear(bench, [one for one in bench.new_deliveries() if one["event"] == "issue_comment"])
    assert await said_to(bench, await bench.spec()) == ["Use tabs."]


async def test_nobody_ever_hears_of_the_second_label_then_it_is_asked_for_and_the_old_work_rests(
    bench: Bench,
) -> None:
    number = await failed(bench)
    set_again(bench, number)
    say(bench, number, "Use tabs.")
    await hear(bench, bench.new_deliveries())
    bench.clock.add(1400)
    await LiveLook(bench.parts).look()
    await bench.rest(listen=False)
    assert (await bench.spec()).state is SpecState.FAILED
