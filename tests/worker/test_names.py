"""What a repository is called and whose it is: what is live counts, whatever late deliveries say."""

from __future__ import annotations

from typing import Any

import pytest

from app.db.installations import find_repository
from tests.worker.bench import Bench


def _owner(payload: dict[str, Any]) -> None:
    payload["repository"]["owner"]["login"] = "an-earlier-owner"
    payload["repository"]["full_name"] = "an-earlier-owner/kit"


def _default_branch(payload: dict[str, Any]) -> None:
    payload["repository"]["default_branch"] = "an-earlier-branch"


def _installation(payload: dict[str, Any]) -> None:
    payload["installation"]["id"] = 1


@pytest.mark.parametrize("change", [_owner, _default_branch, _installation])
async def test_late_delivery_tells_what_held_before_then_what_is_live_stays(
    bench: Bench, change: Any
) -> None:
    bench.open_issue()
    deliveries = bench.new_deliveries()
    await bench.receive(deliveries)
    await bench.rest(listen=False)
    change(deliveries[-1]["payload"])
    await bench.receive(deliveries[-1:], "-late")
    await bench.rest(listen=False)
    async with bench.db.read() as session:
        known = await find_repository(session, bench.repo_id)
    assert known is not None
    found = (known.installation_id, f"{known.owner}/{known.name}", known.default_branch)
    assert found == (bench.installation_id, bench.name, "main")
