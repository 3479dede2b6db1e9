from __future__ import annotations

import os
import signal
import sys

import httpx
import pytest

from app.queue.embedded import find_running
from tests.cli.running import Issuewright, Up, alive, kill, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


def is_replaced(running: Up, name: str, old: int) -> bool:
    return running.children().get(name, old) != old and running.is_ready()


def test_children_die_up_starts_them_again_and_ends_cleanly(issuewright: Issuewright) -> None:
    with issuewright.up() as running:
        first = running.children()
        assert sorted(first) == ["redis", "web", "worker"]
        second = issuewright.run("up", PORT="0")
        assert second.code == 2
        assert f"pid {running.process.pid}" in second.err
        for name, pid in first.items():
            kill(pid)
            until(lambda name=name, pid=pid: is_replaced(running, name, pid), f"{name} was not started again")
        last = running.children()
        assert running.stop(signal.SIGTERM) == 0, running.log.read_text()
        assert not any(alive(pid) for pid in last.values())
    assert find_running(issuewright.home) is None
    assert [path for path in issuewright.home.rglob("*.sock") if path.is_socket()] == []


def test_up_killed_takes_its_children_along_and_the_next_start_works(issuewright: Issuewright) -> None:
    with issuewright.up() as running:
        children = running.children()
        running.process.kill()
        running.process.wait()
        until(lambda: not any(alive(pid) for pid in children.values()), "children outlived `up`", within_s=5)
    with issuewright.up() as running:
        os.killpg(running.process.pid, signal.SIGINT)  # Ctrl-C
        assert running.process.wait(timeout=45) == 0, running.log.read_text()


def test_child_with_wrong_settings_stops_everything(issuewright: Issuewright) -> None:
    with issuewright.up() as running:
        web = running.children()["web"]
        # The next web process can't make its sockets, and exits with 2: trying again would not help.
        (issuewright.home / "run" / "gw").rename(issuewright.home / "run" / "gone")
        (issuewright.home / "run" / "gw").write_text("in the way")
        kill(web)
        assert running.process.wait(timeout=45) == 2, running.log.read_text()


def test_web_without_the_redis_it_was_named_says_so_and_serves(issuewright: Issuewright) -> None:
    assert issuewright.run("migrate").code == 0
    with (issuewright.home / "web.log").open("w+") as log:
        process = issuewright.start("web", outputs=(log, log), REDIS_URL="redis://127.0.0.1:9")
        try:
            url = f"http://127.0.0.1:{issuewright.port}"
            until(lambda: is_alive(url), "web did not start")
            told = httpx.get(f"{url}/readyz", trust_env=False)
        finally:
            process.kill()
            process.wait(30)
        log.seek(0)
        assert "redis.unusable" in log.read()
    assert (told.status_code, told.json()["redis"]) == (503, False)


def is_alive(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
