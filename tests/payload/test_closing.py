"""The closing task of a plan: evidence is handed in by a tool, and what is left out is asked for."""

from __future__ import annotations

from typing import Any

from tests.payload.app_stub import AppStub
from tests.payload.conftest import SandboxMaker
from tests.payload.steps import say, tool, write

CRITERIA = [{"id": "R1.1", "text": "It computes."}, {"id": "R2.1", "text": "It refuses."}]
TOOL = "mcp__issuewright__report_evidence"


def row(criterion: str, *, met: bool = True, evidence: str = "test_it passed") -> dict[str, Any]:
    return {"criterion": criterion, "met": met, "evidence": evidence}


def hand_in(*rows: dict[str, Any]) -> dict[str, Any]:
    return tool(TOOL, rows=list(rows))


def test_evidence_for_every_criterion_leaves_with_the_result(app: AppStub, sandbox: SandboxMaker) -> None:
    turn = [write("a.txt", "mended\n"), hand_in(row("R2.1", met=False), row("R1.1")), say("Checked.")]
    one = sandbox([turn], brief={"criteria": CRITERIA})
    assert one.run() == 0, one.output()
    assert app.manifest["evidence"] == [row("R1.1"), row("R2.1", met=False)], "in the order of the criteria"
    assert app.manifest["bundle_sha256"] is not None, "what it mended leaves with it"


def test_what_was_left_out_is_asked_for_and_a_later_word_replaces_an_earlier_one(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    turns = [
        [hand_in(row("R1.1")), say("Done.")],
        [hand_in(row("R2.1"), row("R1.1", met=False, evidence="looked again")), say("Now all.")],
    ]
    one = sandbox(turns, brief={"criteria": CRITERIA})
    assert one.run() == 0, one.output()
    assert app.manifest["evidence"] == [row("R1.1", met=False, evidence="looked again"), row("R2.1")]


def test_agent_that_never_hands_anything_in_still_comes_to_an_end(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    one = sandbox([[say("All fine.")]] * 5, brief={"criteria": CRITERIA})
    assert one.run() == 0, one.output()
    assert app.manifest["evidence"] == []
    assert app.manifest["status"] == "completed"


def test_criterion_that_is_none_of_the_plans_is_refused_and_nothing_of_it_is_kept(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    turn = [hand_in(row("R9.9")), hand_in(row("R1.1"), row("R2.1")), say("Done.")]
    one = sandbox([turn], brief={"criteria": CRITERIA})
    assert one.run() == 0, one.output()
    assert [one["criterion"] for one in app.manifest["evidence"]] == ["R1.1", "R2.1"]
