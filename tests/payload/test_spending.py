"""What a sandbox says that its agent has cost: its own part of a session that several sandboxes work in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.payload.app_stub import AppStub
from tests.payload.conftest import SandboxMaker
from tests.payload.steps import bash, say


def results(app: AppStub) -> list[dict[str, Any]]:
    return [data for data in app.of("agent.system_message") if data["subtype"] == "result"]


@pytest.mark.parametrize(("max_turns", "code"), [(10, 0), (1, 10)], ids=["done", "cut off"])
def test_when_a_session_goes_on_in_a_new_sandbox_then_only_its_own_cost_is_told(
    app: AppStub, sandbox: SandboxMaker, max_turns: int, code: int
) -> None:
    first = sandbox([[bash("echo one"), say("First.")], [say("Second.")]], brief={"max_turns": max_turns})
    assert first.run() == code, first.output()
    [earlier] = results(app)
    assert earlier["cost_usd"] == earlier["total_cost_usd"] == app.manifest["cost_usd"] > 0

    later_app = AppStub()
    later_app.start()
    later = sandbox(
        [[say("never")], [say("Second.")]],
        app=later_app,
        brief={"resume_session_id": app.manifest["session_id"]},
        transcript=app.artifacts["transcript.tar.gz"],
        prompt="Go on with the second.",
    )
    assert later.run() == 0, later.output()
    later_app.stop()
    [second] = results(later_app)
    # Of one that was cut off the transcript was saved after its end, and with it the sums that the agent goes on from.
    assert (second["total_cost_usd"] > earlier["total_cost_usd"]) is (code != 0)
    assert 0 < second["cost_usd"] < earlier["cost_usd"]
    [told] = later_app.of("agent.completed")
    assert told["cost_usd"] == later_app.manifest["cost_usd"] == second["cost_usd"]
