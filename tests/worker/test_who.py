"""Who is heard: bots by the repository's list, mentions by its rule, and everybody within bounds."""

from __future__ import annotations

from typing import Any

from sqlalchemy import update

from app.db.models import Message, Spec
from app.domain.states import MessageState, SpecState
from app.domain.trust import SAID_AT_MOST
from tests.worker.bench import Bench
from tests.worker.test_comments import contents, reactions, replies, say
from tests.worker.test_life import start
from tests.worker.test_told import fail

BOT_ID = 49_699_333


async def settle(bench: Bench, **settings: Any) -> None:
    """As if the repository's settings had said so when the work started."""
    spec = await bench.spec()
    async with bench.db.write() as session:
        await session.execute(update(Spec).values(settings={**(spec.settings or {}), **settings}))


def by_bot(bench: Bench, bot_id: int = BOT_ID) -> list[dict[str, Any]]:
    """The newest comments, as a bot would have written them."""
    heard = [one for one in bench.new_deliveries() if one["event"] == "issue_comment"]
    bot = {"id": bot_id, "login": "renovate[bot]", "type": "Bot"}
    for one in heard:
        one["payload"]["comment"]["user"] = one["payload"]["sender"] = bot
    return heard


async def hear(bench: Bench, deliveries: list[dict[str, Any]]) -> None:
    await bench.receive(deliveries)
    await bench.receive(deliveries, "-again")
    await bench.rest(listen=False)


async def test_listed_bot_speaks_but_never_commands_and_others_stay_unheard(bench: Bench) -> None:
    number = await start(bench)
    bench.new_deliveries()
    say(bench, number, "Nobody listed me.")
    await hear(bench, by_bot(bench))
    await settle(bench, allowed_bots=[BOT_ID])
    say(bench, number, "Coverage fell to 80 %.\n\n/agent stop now")
    await hear(bench, by_bot(bench))
    say(bench, number, "I am another one.")
    await hear(bench, by_bot(bench, BOT_ID + 1))
    assert await contents(bench) == ["Coverage fell to 80 %."]
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert replies(bench, number) == []


async def test_listed_bot_on_failed_work_waits_for_a_person(bench: Bench) -> None:
    number = await fail(bench)
    await settle(bench, allowed_bots=[BOT_ID])
    bench.new_deliveries()
    before = len(bench.sandboxes.orders)
    say(bench, number, "Build 7 failed.")
    await hear(bench, by_bot(bench))
    await bench.pass_time(60)
    assert len(bench.sandboxes.orders) == before
    say(bench, number, "/agent retry")
    await bench.rest()
    assert len(bench.sandboxes.orders) == before + 1
    assert await contents(bench) == ["Build 7 failed."]


async def test_only_mentions_are_messages_then_other_comments_stay_between_people(bench: Bench) -> None:
    number = await start(bench)
    await settle(bench, messages="mention")
    slug = (await bench.parts.identity()).slug
    quiet = say(bench, number, "What do you think, @alice?")
    say(bench, number, f"@{slug} use tabs")
    say(bench, number, f"> @{slug} use spaces\n\nNo, really not.")
    await bench.rest()
    assert await contents(bench) == [f"@{slug} use tabs"]
    assert reactions(bench, quiet) == []
    bench.github.edit_comment(quiet, "carol", f"@{slug} what do you think?")
    await bench.rest()
    assert (await contents(bench))[1:] == [f"@{slug} what do you think?"]


async def test_one_person_says_too_much_then_it_is_marked_and_said_once_and_others_are_heard(
    bench: Bench,
) -> None:
    number = await start(bench)
    for at in range(SAID_AT_MOST):
        say(bench, number, f"{at}")
    await bench.rest()
    late = [say(bench, number, f"too much {at}") for at in range(2)]
    say(bench, number, "I have a word too.", by="alice")
    await bench.rest()
    heard = await contents(bench)
    assert len(heard) == SAID_AT_MOST + 1
    assert heard[-1] == "I have a word too."
    assert [reactions(bench, one) for one in late] == [["confused"]] * 2
    assert len([text for text in replies(bench, number) if "within an hour" in text]) == 1
    bench.clock.add(3_700)
    say(bench, number, "an hour later")
    await bench.rest()
    assert (await contents(bench))[-1] == "an hour later"


async def test_rounds_are_used_up_then_it_rests_until_somebody_says_to_go_on(bench: Bench) -> None:
    number = await start(bench)
    await settle(bench, max_rounds=1)
    await bench.hand_in(session_id="s-1")
    await bench.rest()
    say(bench, number, "One more thing.")
    await bench.rest()
    async with bench.db.write() as session:  # the agent takes it in
        await session.execute(update(Message).values(state=MessageState.ACKNOWLEDGED))
    await bench.hand_in(2, text="more\n")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    say(bench, number, "And one more.")
    await bench.pass_time(10)
    assert (await bench.spec()).state is SpecState.PAUSED
    pull = bench.github.pulls(bench.name)[0]["number"]
    assert len([text for text in bench.comments(pull) if "`max_rounds`" in text]) == 1
    assert len(bench.sandboxes.orders) == 1
    say(bench, number, "/agent resume")
    await bench.pass_time(10)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert len(bench.sandboxes.orders) == 2
    newest = bench.sandboxes.newest.sandbox_id
    assert [one.content for one in await bench.messages() if one.sandbox_id == newest] == ["And one more."]
