"""What a local sandbox had ready when it ended: copied from its directory, which was its agent's to write."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.domain.remote import Left
from app.sandbox.local import LocalHost
from app.sandbox.process import ProcessSandboxes
from app.sandbox.state_dir import StateDir
from sandbox_payload.wire.left import MAX_SPOOL_FILE_BYTES, SPOOL_FILES

from .support import App, Look, OrderOf, delete_all

NAME = "iw-sbx-1"
NOTHING = Left()


@pytest.fixture
async def sandboxes(host: LocalHost) -> AsyncIterator[ProcessSandboxes]:
    provider = ProcessSandboxes(host)
    yield provider
    await delete_all(provider)


@pytest.fixture
async def state(sandboxes: ProcessSandboxes, order_of: OrderOf, look: Look, app: App) -> Path:
    """Of a sandbox that has ended."""
    await sandboxes.ensure_created(order_of("look"))
    await look.ended()
    directory: StateDir = look.directory
    return directory.state


def leave(state: Path, name: str, text: str, age_s: int = 0) -> None:
    path = state / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, (1_800_000_000 - age_s, 1_800_000_000 - age_s))


async def test_ended_then_what_it_had_ready_is_copied_with_the_newest_work_and_events(
    sandboxes: ProcessSandboxes, state: Path, tmp_path: Path
) -> None:
    for age_s, name in enumerate(["kept.bundle", "work.bundle", "transcript.tar.gz", "manifest.json"]):
        leave(state, name, name, age_s)
    segments = [f"{number:012d}.jsonl" for number in range(1, SPOOL_FILES + 3)]
    for name in (*segments, "acknowledged", "000000000009.jsonl.new"):
        leave(state, f"spool/{name}", name)
    left = await sandboxes.save_left(NAME, tmp_path / "left")
    found = (left.checkpoint, left.result, left.transcript, left.manifest, *left.spool)
    assert [path.read_text() for path in found if path is not None] == [
        "kept.bundle", "work.bundle", "transcript.tar.gz", "manifest.json", *segments[-SPOOL_FILES:],
    ]  # fmt: skip
    leave(state, "work.bundle", "newer", -5)
    left = await sandboxes.save_left(NAME, tmp_path / "left")
    assert left.checkpoint is not None
    assert left.checkpoint.read_text() == "newer"


async def test_links_pipes_folders_and_too_much_in_their_places_then_none_of_it_is_read(
    sandboxes: ProcessSandboxes, state: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secrets"
    secret.mkdir()
    (secret / "000000000001.jsonl").write_text("of the host")
    (state / "work.bundle").symlink_to(secret / "000000000001.jsonl")
    (state / "manifest.json").mkdir()
    os.mkfifo(state / "kept.bundle")
    with (state / "transcript.tar.gz").open("wb") as sparse:
        sparse.truncate(2**40)
    (state / "spool").symlink_to(secret)
    assert await sandboxes.save_left(NAME, tmp_path / "left") == NOTHING
    (state / "spool").unlink()
    (state / "spool").mkdir()
    with (state / "spool" / "000000000001.jsonl").open("wb") as sparse:
        sparse.truncate(MAX_SPOOL_FILE_BYTES + 1)
    assert await sandboxes.save_left(NAME, tmp_path / "left") == NOTHING


async def test_gone_or_left_nothing_then_there_is_nothing(
    sandboxes: ProcessSandboxes, state: Path, tmp_path: Path
) -> None:
    assert await sandboxes.save_left(NAME, tmp_path / "left") == NOTHING
    assert await sandboxes.save_left("iw-none", tmp_path / "left") == NOTHING
