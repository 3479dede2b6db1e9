"""The measurement of many sandboxes, with numbers too small to mean anything."""

from __future__ import annotations

import pytest

from bench import sandboxes
from tests.bench.left import children


def test_sandboxes_measured_then_every_event_is_stored_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ISSUEWRIGHT_TEST_POSTGRES_URL", raising=False)
    before = children()
    figures = {one.name.rsplit(": ", 1)[1]: one for one in sandboxes.measure(sandboxes=5, seconds=1)}
    assert figures["events stored"].value >= 5 * (1 + sandboxes.WARM_S)
    assert figures["events lost"].value == 0
    assert figures["acknowledged, p99"].goal == 250
    assert figures["acknowledged, p99"].value >= figures["acknowledged, p50"].value > 0
    assert children() <= before
