"""Secrets in what an agent hands in: told where, never what; in nothing that GitHub, the log or the database shows."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import text

from app.db.engine import Database
from app.db.models import Base
from app.domain.states import SpecState
from tests.git.test_secrets_scan import SAMPLES
from tests.worker.bench import Bench
from tests.worker.test_life import start

OURS = "whk-9f3Kq7Zr2LmX5vB8"
FORMATS = [SAMPLES[name] for name in ("ghs", "pat", "anthropic", "aws", "slack", "jwt")]
WRAPPED = [
    OURS,
    OURS[::-1],
    base64.b64encode(OURS.encode()).decode(),
    OURS.encode().hex(),
    base64.b64encode(FORMATS[0].encode()).decode(),
    FORMATS[1][::-1],
]


async def texts_of(db: Database) -> str:
    """Every column of every table but those that keep what came in as it came."""
    raw = {"artifact_chunk", "delivery"}
    tables = [name for name in Base.metadata.tables if name not in raw]
    async with db.read() as session:
        return "\n".join(
            [str((await session.execute(text(f'SELECT * FROM "{name}"'))).all()) for name in tables]
        )


async def assert_unseen(bench: Bench, logs: io.StringIO, secrets: Sequence[str]) -> None:
    seen = {
        "GitHub": str(bench.github.repo(bench.name)) + str(bench.github.issue(bench.name, 1)) + str(bench.writes())
        + str(bench.github.pulls(bench.name)),
        "log": logs.getvalue(),
        "database": await texts_of(bench.db),
    }  # fmt: skip
    assert "Do it" in seen["GitHub"]
    for place, words in seen.items():
        assert [secret[:12] for secret in secrets if secret in words] == [], place


async def test_secrets_in_a_change_are_not_pushed_and_named_by_place_only(
    bench: Bench, log_output: io.StringIO
) -> None:
    bench.parts = replace(bench.parts, secrets=(OURS,))
    number = await start(bench)
    secrets = [*WRAPPED, *FORMATS]
    await bench.hand_in(text="".join(f"key = {secret}\n" for secret in secrets))
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    status = bench.status(number)
    assert "Not pushed" in status
    assert "work.txt" in status
    await assert_unseen(bench, log_output, secrets)


async def test_secrets_in_what_the_agent_says_are_taken_out_of_every_text(
    bench: Bench, log_output: io.StringIO
) -> None:
    bench.parts = replace(bench.parts, secrets=(OURS,))
    await start(bench)
    await bench.hand_in(summary="I used " + " and ".join([OURS, *FORMATS]) + ".")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert "I used [redacted" in bench.github.pulls(bench.name)[0]["body"]
    await assert_unseen(bench, log_output, [OURS, *FORMATS])


async def test_secrets_in_why_the_agent_failed_are_taken_out_of_every_text(
    bench: Bench, log_output: io.StringIO
) -> None:
    bench.parts = replace(bench.parts, secrets=(OURS,))
    number = await start(bench)
    detail = "The model said " + " and ".join([OURS, *FORMATS])
    await bench.hand_in(status="failed", reason="model_error", detail=detail)
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    assert "The model said" in bench.status(number)
    await assert_unseen(bench, log_output, [OURS, *FORMATS])
