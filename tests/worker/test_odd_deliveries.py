"""Deliveries that lack something, name nobody, or are about things we do not act on: ignored, with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from app.domain.states import DeliveryState
from tests.worker.bench import Bench

PAYLOADS = Path(__file__).parents[1] / "payloads"
NEEDED = (
    "issue", "issue.number", "issue.title", "issue.user", "label", "label.name", "repository", "repository.id",
    "repository.name", "sender", "sender.id", "sender.login", "installation", "installation.id", "action",
)  # fmt: skip


def changed(delivery: dict[str, Any], path: str, how: str) -> dict[str, Any]:
    """The delivery with one field of its payload left out, renamed, or of another kind."""
    other: dict[str, Any] = json.loads(json.dumps(delivery))
    *above, name = path.split(".")
    inner = other["payload"]
    for part in above:
        inner = inner[part]
    value = inner.pop(name)
    if how == "renamed":
        inner[f"{name}_new"] = value
    if how == "other":
        inner[name] = [[7]]
    other["guid"] = f"{path}-{how}"
    return other


async def test_label_event_that_lacks_what_is_needed_is_ignored_with_a_reason_and_starts_nothing(
    bench: Bench,
) -> None:
    bench.label(bench.open_issue())
    [labeled] = [one for one in bench.new_deliveries() if one["payload"].get("action") == "labeled"]
    odd = [changed(labeled, path, how) for path in NEEDED for how in ("missing", "renamed", "other")]
    ghost = changed(labeled, "action", "missing")
    ghost["payload"] |= {"action": "labeled", "sender": None}
    await bench.receive([*odd, ghost | {"guid": "ghost"}])
    await bench.take_in()
    rows = {row.id: row for row in await bench.deliveries()}
    assert len(rows) == len(odd) + 1
    assert {key: row.state for key, row in rows.items() if row.state is not DeliveryState.IGNORED} == {}
    assert [key for key, row in rows.items() if not row.reason] == []
    assert "no longer exists" in str(rows["ghost"].reason)
    assert await bench.specs() == []
    await bench.receive([labeled])
    await bench.take_in()
    assert len(await bench.specs()) == 1


async def test_events_about_nothing_we_act_on_are_ignored_with_a_reason(bench: Bench) -> None:
    github_says = {
        "ping": {"zen": "Keep it simple.", "hook_id": 1, "hook": {"app_id": 5}},
        "github_app_authorization": json.loads(
            (PAYLOADS / "github_app_authorization" / "revoked.json").read_bytes()
        ),
        "push": json.loads((PAYLOADS / "push" / "with-installation.json").read_bytes()),
        "repository": json.loads((PAYLOADS / "repository" / "renamed.json").read_bytes()),
        "an_event_of_next_year": {"action": "done", "anything": [1, {"x": None}]},
        "issues": {"action": "teleported", "issue": "no object"},
    }
    deliveries = [
        {"guid": event, "event": event, "payload": payload} for event, payload in github_says.items()
    ]
    await bench.receive(deliveries)
    await bench.take_in()
    rows = await bench.deliveries()
    assert {row.id: row.state for row in rows} == dict.fromkeys(github_says, DeliveryState.IGNORED)
    assert all(row.reason for row in rows)
    assert await bench.specs() == []
    assert bench.writes() == []
