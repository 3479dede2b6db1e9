"""The measurement of webhook receipts, with numbers too small to mean anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import receiver
from bench.poster import post_all
from bench.servers import SECRET, app_environment, running
from tests.bench.left import children


def test_receiver_measured_then_every_server_answered_and_none_is_left() -> None:
    before = children()
    figures = {figure.name: figure for figure in receiver.measure(requests=70, rounds=1)}
    assert {name: figure.goal for name, figure in figures.items() if figure.goal is not None} == {
        "receipts: durable / bare HMAC endpoint": 0.4,
        "receipts: durable / gidgethub on aiohttp": 1,
    }
    assert all(figure.value > 0 for figure in figures.values())
    assert children() <= before


def test_answer_other_than_202_then_the_measurement_fails(tmp_path: Path) -> None:
    bare = ("uvicorn", "bench.bare:app", "--log-level", "warning", "--no-access-log")
    with (tmp_path / "log").open("wb") as log, running(bare, app_environment(tmp_path), log) as port:
        assert post_all(port, "/webhooks/github", SECRET, 1) > 0
        with pytest.raises(RuntimeError, match=" 401 "):
            post_all(port, "/webhooks/github", "another secret", 1)


def test_server_that_does_not_start_then_it_is_said(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="did not start"),
        (tmp_path / "log").open("wb") as log,
        running(("bench.not_there",), app_environment(tmp_path), log),
    ):
        pytest.fail("nothing runs")
