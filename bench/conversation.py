"""How fast a comment reaches running agents: into the model's next request, and as a stop that kills a tool."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

import httpx
from sqlalchemy import func, select

from app.cli.demo.github import FULL_NAME, PERSON
from app.cli.demo.stage import Place, Stage, Stagehand
from app.db.engine import Database
from app.db.models import Delivery, Event
from bench.figures import Figure
from tests.servers import find_postgres, new_database

AGENTS = 6
"""Running at the same moment, each in a sandbox of its own, and each with a person of its own who talks to it: what one
person may say in an hour has a limit.
"""
ROUNDS = 5
"""Comments to each of them, one at a time; the others wait for theirs."""
LABEL = "agent:quick"
WAIT_S = 120.0
LOOK_S = 0.01
UNSEEN_S = 1.0
"""Looking is work on the same machine: it begins when a word has most likely arrived. The times are from logs."""
BETWEEN_S = 0.5
"""What follows a round (a push, edits of comments) is over when the next word comes."""
TOOL_S = 300
Found = TypeVar("Found")


@dataclass(frozen=True)
class Watched:
    """The stage, and a look into its database."""

    stage: Stage
    database: Database


def measure(agents: int = AGENTS, rounds: int = ROUNDS) -> list[Figure]:
    """Comments to agents at rest, then one stop for each while its tool runs. On SQLite; and on PostgreSQL, where tests
    are told of a server.
    """
    figures = asyncio.run(_measure(None, agents, rounds))
    if find_postgres():
        with new_database(durable=True) as url:
            figures += asyncio.run(_measure(url, agents, rounds))
    return figures


async def _measure(database_url: str | None, agents: int, rounds: int) -> list[Figure]:
    stagehand = Stagehand(idle_s=600)
    kind = "PostgreSQL" if database_url else "SQLite"
    database = Database(database_url or f"sqlite+aiosqlite:///{stagehand.home / 'issuewright.db'}")
    try:
        stage = await stagehand.build(Place("bubblewrap"), database_url)
        watched = Watched(stage, database)
        for number in range(agents):
            await stage.github.do("users/create", login=_person(number))
            await stage.github.do("repos/collaborator", repo=FULL_NAME, login=_person(number), role="write")
        words_ms = await _words(watched, agents, rounds)
        stops_s = await _stops(watched, agents)
    finally:
        await database.aclose()
        await stagehand.clear(remove=True)
    case = f", {agents} agents, {kind}"
    return [
        Figure(f"comment received to the model's next request, p50{case}", round(median(words_ms)), "ms", "at most", 150),
        Figure(f"comment received to the model's next request, p95{case}", percentile_95(words_ms), "ms", "at most", 250),
        Figure(f"`/agent stop now` received to the tool killed, p95{case}", percentile_95(stops_s, 2), "s", "at most", 1),
    ]  # fmt: skip


def percentile_95(values: Sequence[float], digits: int = 0) -> float:
    """The smallest value that 95 % do not exceed."""
    return round(sorted(values)[math.ceil(0.95 * len(values)) - 1], digits)


async def _words(watched: Watched, agents: int, rounds: int) -> list[float]:
    """Milliseconds, each comment after the agents have come to rest again. The first round warms up."""
    # A result without a change would end the work.
    write = {"name": "Bash", "input": {"command": "echo more >> README.md"}}
    first: list[dict[str, object]] = [{"tool_use": [write]}, {"text": "Done."}]
    await _script(watched.stage, "bench-words", [first] + [[{"text": "Heard."}]] * (rounds + 1))
    issues = [await _start(watched.stage, "bench-words") for _ in range(agents)]
    await _until(partial(_count, watched, "agent.waiting", agents), "the agents at rest")
    found: list[float] = []
    for round_ in range(rounds + 1):
        for position, number in enumerate(issues, 1):
            text = f"Word {round_}-{number} of the bench."
            await _say(watched.stage, number, position - 1, text)
            await asyncio.sleep(UNSEEN_S)
            took = await _until(partial(_time_to_model, watched, text), f"{text!r} in a request")
            found += [took * 1000] if round_ else []
            rests = agents * (round_ + 1) + position
            await _until(partial(_count, watched, "agent.waiting", rests), "the agent at rest again")
            await asyncio.sleep(BETWEEN_S)
    return found


async def _stops(watched: Watched, agents: int) -> list[float]:
    """Seconds, one stop after the other while the other agents work on."""
    found = []
    names = [f"bench-stop-{number}" for number in range(agents)]
    issues = []
    for number, name in enumerate(names):
        command = {"name": "Bash", "input": {"command": f"python3 -c '{_sleep(TOOL_S + number)}'"}}
        await _script(watched.stage, name, [[{"tool_use": [command]}, {"text": "Done."}]])
        issues.append(await _start(watched.stage, name))
    for number, issue in enumerate(issues):
        seconds = TOOL_S + number
        await _until(partial(_sleeps, seconds, there=True), "the tool running")
        text = f"/agent stop now\n\nStop {number} of the bench."
        await _say(watched.stage, issue, number, text)
        await _until(partial(_sleeps, seconds, there=False), "the tool killed")
        ended = time.time()
        received = await _until(partial(_received, watched, text), "the stop stored")
        found.append(ended - received)
    return found


# ---------------------------------------------------------------- what people do


async def _script(stage: Stage, name: str, turns: list[list[dict[str, object]]]) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"{stage.model_url}/_sim/scripts/{name}", json={"turns": turns})
    answer.raise_for_status()


async def _start(stage: Stage, scenario: str) -> int:
    body = f"Please.\n\nscenario: {scenario}\n"
    issue = await stage.github.do("issues/open", repo=FULL_NAME, by=PERSON, title="Do the thing", body=body)
    await stage.github.label(int(issue["number"]), LABEL)
    return int(issue["number"])


async def _say(stage: Stage, number: int, agent: int, text: str) -> None:
    await stage.github.do("comments/create", repo=FULL_NAME, number=number, by=_person(agent), body=text)


def _person(agent: int) -> str:
    return f"bench-person-{agent + 1}"


# ---------------------------------------------------------------- what came of it


async def _until(look: Callable[[], Awaitable[Found | None]], what: str) -> Found:
    deadline = time.monotonic() + WAIT_S
    while (found := await look()) is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {WAIT_S:.0f} s")
        await asyncio.sleep(LOOK_S)
    return found


async def _sleeps(seconds: int, *, there: bool) -> bool | None:
    return True if _is_asleep(seconds) is there else None


async def _time_to_model(watched: Watched, text: str) -> float | None:
    """Seconds from the delivery stored to the first request that has the text, both by this machine's clock."""
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(
            f"{watched.stage.model_url}/_sim/requests", params={"scenario": "bench-words"}
        )
    asked = [one["at"] for one in answer.json()["requests"] if text in json.dumps(one["body"])]
    received = await _received(watched, text)
    if not asked or received is None:
        await asyncio.sleep(0.5)  # looking is work, too
        return None
    return datetime.fromisoformat(min(asked)).timestamp() - received


async def _received(watched: Watched, text: str) -> float | None:
    """When the comment's delivery came in, in seconds since 1970."""
    query = select(Delivery.received_at, Delivery.body).where(Delivery.event == "issue_comment")
    quoted = json.dumps(text)[1:-1].encode()
    async with watched.database.read() as session:
        rows = (await session.execute(query)).all()
    return min((at.timestamp() for at, body in rows if quoted in body), default=None)


async def _count(watched: Watched, event_type: str, wanted: int) -> bool | None:
    query = select(func.count()).select_from(Event).where(Event.event_type == event_type)
    async with watched.database.read() as session:
        found = await session.scalar(query)
    await asyncio.sleep(0.2)
    return True if found is not None and found >= wanted else None


def _sleep(seconds: int) -> str:
    return f"import time; time.sleep({seconds})"


def _is_asleep(seconds: int) -> bool:
    """Whether the tool's process is there, by its own command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().split(b"\0")[-2:-1] == [_sleep(seconds).encode()]:
                return True
        except OSError:
            continue
    return False
