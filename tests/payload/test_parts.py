"""Forwarder, transcript, outcome."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeSDKError, CLINotFoundError, ProcessError, ResultMessage

from sandbox_payload.agent import Gone
from sandbox_payload.outcome import judge_gone, judge_not_started, judge_result
from sandbox_payload.transcript import (
    BadTranscript,
    SessionTooLarge,
    has_session,
    pack_transcript,
    restore_transcript,
)
from tests.payload.sandbox import ROOT, eventually


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def reaches(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"echo:" + await reader.read())
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def ask(port: int) -> bytes:
    """What the far side answered to much data; nothing when the connection was cut."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"x" * 300_000)
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), 5)
    except OSError:
        return b""
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_when_the_app_makes_a_new_socket_then_the_forwarder_finds_it_and_ends_as_its_command(
    tmp_path: Path,
) -> None:
    with tempfile.TemporaryDirectory() as short:
        path, port = f"{short}/app.sock", free_port()
        ready = tmp_path / "ready"
        command = ["sh", "-c", f"trap 'exit 7' TERM; touch '{ready}'; while :; do sleep 0.1; done"]
        forwarder = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "sandbox_payload.forwarder",
            "--route",
            f"{port}={path}",
            "--",
            *command,
            cwd=ROOT,
        )
        for _ in range(2):
            await asyncio.to_thread(eventually, lambda: reaches(port))
            assert await ask(port) == b""
            server = await asyncio.start_unix_server(echo, path)
            assert await ask(port) == b"echo:" + b"x" * 300_000
            server.close()
            Path(path).unlink(missing_ok=True)
        await asyncio.to_thread(eventually, ready.exists)
        forwarder.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(forwarder.wait(), 10) == 7


@pytest.mark.parametrize(("command", "code"), [("exit 5", 5), ("kill -9 $$", 137)])
def test_when_the_command_ends_then_the_forwarder_ends_the_same_way(command: str, code: int) -> None:
    arguments = ["--route", f"{free_port()}=/nowhere", "--", "sh", "-c", command]
    done = subprocess.run(
        [sys.executable, "-S", "-m", "sandbox_payload.forwarder", *arguments], cwd=ROOT, check=False
    )
    assert done.returncode == code


def test_when_a_transcript_travels_then_it_arrives_whole(tmp_path: Path) -> None:
    project = tmp_path / "one/projects/-work-tree"
    (project / "s1/tool-results").mkdir(parents=True)
    (project / "s1.jsonl").write_text('{"a": 1}\n')
    (project / "s1/tool-results/big.txt").write_text("big")
    archive = pack_transcript(tmp_path / "one", tmp_path / "t.tar.gz")
    assert archive is not None
    restore_transcript(archive, tmp_path / "two")
    assert has_session(tmp_path / "two", "s1")
    assert not has_session(tmp_path / "two", "s2")
    assert (tmp_path / "two/projects/-work-tree/s1/tool-results/big.txt").read_text() == "big"


def test_when_a_session_is_too_large_to_hand_over_then_it_goes_without_its_largest_files_or_as_an_empty_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "one/projects/-work-tree"
    (project / "s1/tool-results").mkdir(parents=True)
    (project / "s1.jsonl").write_bytes(os.urandom(20_000))
    (project / "s1/tool-results/big.txt").write_bytes(os.urandom(3_000_000))
    monkeypatch.setattr("sandbox_payload.transcript.MAX_ARTIFACT_BYTES", 1_000_000)
    archive = pack_transcript(tmp_path / "one", tmp_path / "t.tar.gz")
    assert archive is not None
    restore_transcript(archive, tmp_path / "two")
    assert has_session(tmp_path / "two", "s1")
    assert not (tmp_path / "two/projects/-work-tree/s1/tool-results/big.txt").exists()
    monkeypatch.setattr("sandbox_payload.transcript.MAX_ARTIFACT_BYTES", 10_000)
    with pytest.raises(SessionTooLarge):
        pack_transcript(tmp_path / "one", archive)
    with pytest.raises(SessionTooLarge):
        restore_transcript(archive, tmp_path / "three")
    assert not has_session(tmp_path / "three", "s1")


@pytest.mark.parametrize("name", ["../out.txt", "/abs.txt", "a/../../out.txt"])
def test_when_a_transcript_points_outside_then_it_is_refused(tmp_path: Path, name: str) -> None:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = 1
        tar.addfile(member, BytesIO(b"x"))
    (tmp_path / "t.tar.gz").write_bytes(buffer.getvalue())
    with pytest.raises(BadTranscript):
        restore_transcript(tmp_path / "t.tar.gz", tmp_path / "config")
    (tmp_path / "t.tar.gz").write_bytes(buffer.getvalue()[:20])
    with pytest.raises(BadTranscript):
        restore_transcript(tmp_path / "t.tar.gz", tmp_path / "config")


def damaged_in_the_middle(archive: bytes) -> bytes:
    at = len(archive) // 2
    return archive[:at] + bytes(one ^ 0xFF for one in archive[at : at + 64]) + archive[at + 64 :]


def with_a_name_that_no_file_can_have(_archive: bytes) -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("x")
        member.size, member.pax_headers = 1, {"path": "a\0b"}
        tar.addfile(member, BytesIO(b"x"))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "damage",
    [
        damaged_in_the_middle, with_a_name_that_no_file_can_have, lambda archive: archive[: len(archive) // 2],
        lambda archive: archive[:-8] + b"\0" * 8, lambda _archive: b"", lambda _archive: b"no archive",
    ],
)  # fmt: skip
def test_when_a_transcript_is_damaged_then_it_is_refused_and_leaves_no_half_session(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    project = tmp_path / "one/projects/-work-tree"
    project.mkdir(parents=True)
    (project / "s1.jsonl").write_bytes(
        b"".join(b'{"a": "%s"}\n' % os.urandom(20).hex().encode() for _ in range(9_000))
    )
    archive = pack_transcript(tmp_path / "one", tmp_path / "t.tar.gz")
    assert archive is not None
    archive.write_bytes(damage(archive.read_bytes()))
    with pytest.raises(BadTranscript):
        restore_transcript(archive, tmp_path / "two")
    assert not has_session(tmp_path / "two", "s1")


def result(**fields: Any) -> ResultMessage:
    known: dict[str, Any] = {
        "subtype": "success",
        "is_error": False,
        "result": "Done.",
        "terminal_reason": "completed",
    }
    return ResultMessage(duration_ms=1, duration_api_ms=1, num_turns=1, session_id="s", **{**known, **fields})


@pytest.mark.parametrize(
    ("fields", "status", "reason", "said"),
    [
        ({}, "completed", "", ""),
        (
            {"is_error": True, "result": "API Error: 400 credit", "api_error_status": 400},
            "failed",
            "model_error",
            "credit",
        ),
        ({"is_error": True, "result": "success"}, "failed", "completed", "ended with success"),
        (
            {"is_error": True, "result": "API Error: 403 budget is spent", "api_error_status": 403},
            "failed",
            "budget",
            "spent",
        ),
        ({"subtype": "error_max_turns", "is_error": True, "result": None}, "failed", "max_turns", "turns"),
        ({"subtype": "error_max_budget_usd", "is_error": True}, "failed", "budget", "budget"),
        (
            {"subtype": "error_during_execution", "is_error": False, "terminal_reason": None},
            "failed",
            "error_during_execution",
            "",
        ),
        ({"stop_reason": "refusal", "result": ""}, "failed", "refusal", "refused"),
        ({"is_error": True, "result": "blocked by our safeguards"}, "failed", "refusal", "safeguards"),
        ({"result": ""}, "failed", "empty_answer", "without a word"),
    ],
)
def test_when_a_turn_ends_then_the_outcome_is_honest(
    fields: dict[str, Any], status: str, reason: str, said: str
) -> None:
    outcome = judge_result(result(**fields), "")
    assert (outcome.status, outcome.reason) == (status, reason)
    assert said in outcome.detail


@pytest.mark.parametrize(
    ("code", "reason", "said"), [(-9, "cli_killed", "SIGKILL"), (1, "cli_ended", "exit code 1")]
)
def test_when_the_command_line_is_gone_then_it_is_named(code: int, reason: str, said: str) -> None:
    outcome = judge_gone(Gone(code, ""))
    assert outcome.reason == reason
    assert said in outcome.detail


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ProcessError("Command failed", exit_code=-9), "cli_killed"),
        (ProcessError("Command failed", exit_code=1), "agent_not_started"),
        (CLINotFoundError(), "agent_not_started"),
    ],
)
def test_when_the_command_line_does_not_start_then_only_one_that_was_killed_is_tried_again(
    error: ClaudeSDKError, reason: str
) -> None:
    assert judge_not_started(error).reason == reason
