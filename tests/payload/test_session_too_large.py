"""A session that has become too large to be kept: nobody goes on with it as it was earlier."""

from __future__ import annotations

import asyncio
import os
import tarfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pytest

from sandbox_payload.activity import Activity
from sandbox_payload.handover import Handover
from sandbox_payload.inputs import Inputs
from sandbox_payload.link import Link
from sandbox_payload.state import config_directory
from sandbox_payload.wire import ArtifactName, Brief
from sandbox_payload.wire.plan import PhaseOrder
from tests.payload.app_stub import AppStub
from tests.payload.conftest import SandboxMaker
from tests.payload.steps import say

SESSION = "5d1f2f1e-8f0c-4f6e-9f39-0d6a0f0c7a11"


class Taken:
    """Takes what is handed over, in place of the app."""

    def __init__(self) -> None:
        self.artifacts: dict[str, bytes] = {}

    def put_artifact(self, name: ArtifactName, path: Path) -> str:
        self.artifacts[name] = path.read_bytes()
        return ""


def empty_archive() -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz"):
        pass
    return buffer.getvalue()


def test_when_a_session_becomes_too_large_then_what_was_kept_of_it_is_replaced_and_it_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox_payload.transcript.MAX_ARTIFACT_BYTES", 10_000)
    session = config_directory(tmp_path) / "projects/-work-tree" / f"{SESSION}.jsonl"
    session.parent.mkdir(parents=True)
    brief = Brief(
        sandbox_id="s", spec_id="p", repository="carol/x", branch="b", start_sha="0" * 40, phases=[order()]
    )
    inputs = Inputs(
        brief, "Go on.", "Anew.", None, None, "token", "http://app", "http://app", tmp_path, tmp_path, {}, ""
    )
    taken, told = Taken(), list[dict[str, Any]]()
    handover = Handover(
        inputs, cast(Link, taken), lambda _kind, data: told.append(dict(data)), Activity(session_id=SESSION)
    )
    kept = []
    for lines in (1, 20, 30):
        session.write_text("".join(f'{{"a": "{os.urandom(500).hex()}"}}\n' for _ in range(lines)))
        asyncio.run(handover.checkpoint(time.monotonic() + 5))
        with tarfile.open(fileobj=BytesIO(taken.artifacts["transcript.tar.gz"])) as archive:
            kept.append([Path(name).stem for name in archive.getnames()])
    assert kept == [[SESSION], [], []]
    assert [one["reason"] for one in told] == ["session_too_large"]


def order() -> PhaseOrder:
    return PhaseOrder.model_construct()


def test_when_the_session_to_go_on_with_was_too_large_then_a_new_one_is_told_what_the_work_is_and_it_is_said(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    script = {"on_message": [{"match": "for this issue", "steps": [say("Done anew.")]}]}
    one = sandbox(
        script, brief={"resume_session_id": SESSION}, prompt="Go on.", prompt_anew="Go on for this issue.",
        transcript=empty_archive(),
    )  # fmt: skip
    assert one.run() == 0, one.output()
    assert app.manifest["summary"] == "Done anew."
    assert app.manifest["session_id"] != SESSION
    [error] = app.of("agent.error")
    assert error["reason"] == "session_not_restored"
    assert "too large" in error["detail"]
