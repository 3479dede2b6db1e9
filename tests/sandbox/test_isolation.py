from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from app.domain.ports import Sandboxes
from app.sandbox.local import LocalHost

from .support import App, Look, OrderOf, Source, git

pytestmark = pytest.mark.needs_bubblewrap

CONTRACT = {"SANDBOX_ID", "SPEC_ID", "CALLBACK_URL", "ANTHROPIC_BASE_URL", "SANDBOX_TOKEN_FILE"}
BESIDE = {"PATH", "HOME", "LANG", "PWD"}


async def test_inside_sees_the_contracts_environment_and_a_bare_machine(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_APP_PRIVATE_KEY", "planted")
    order = order_of("look")
    await sandboxes.ensure_created(order)
    seen = await look.report()

    names = {name for name in seen["environment"] if not name.startswith("PYTHON")}
    assert names == CONTRACT | BESIDE
    assert seen["environment"]["HOME"] == "/home/agent"
    assert seen["environment"]["ANTHROPIC_BASE_URL"] == (
        seen["environment"]["CALLBACK_URL"] + "/api/v1/sandboxes/sbx_1/model"
    )
    assert seen["token"] == order.token
    assert seen["user"] == 1000
    assert seen["head"].startswith(f"{order.start_sha} HEAD -> feature/7-thing, ")
    assert seen["git_trouble"] == seen["status"] == ""
    assert len(seen["pids"]) <= 5
    assert seen["writable"] == []
    assert seen["nested_namespaces"] is False
    assert seen["capabilities"] == [
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
    ]
    places = seen["places"]
    assert places["/home"] == ["agent"]
    assert places["/opt"] == ["issuewright"]
    hidden = ("/etc/shadow", "/etc/resolv.conf", "/var", "/run/docker.sock", "/mnt")
    assert [places[place] for place in hidden] == [None] * len(hidden)
    # A Python under /root brings that directory's name, and nothing else of it.
    assert places["/root"] in (None, [".pyenv"], [".local"])


async def test_planted_secrets_are_in_no_file_and_no_variable(
    host: LocalHost,
    sandboxes: Sandboxes,
    order_of: OrderOf,
    look: Look,
    app: App,
    source: Source,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = "ghs_" + os.urandom(18).hex()
    monkeypatch.setenv("ANTHROPIC_API_KEY", secret)
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", secret)
    host.home.mkdir(exist_ok=True)
    (host.home / ".env").write_text(secret)
    (host.socket_dir / "key.pem").write_text("not of the app")
    git(
        "config",
        "remote.origin.url",
        f"https://x-access-token:{secret}@github.example/o/r",
        cwd=source.mirror,
    )
    source.commit({"decoy.txt": secret.encode()})
    other = order_of("wait", name="iw-other", token=secret)
    await sandboxes.ensure_created(other)

    await sandboxes.ensure_created(order_of("hunt", system=secret.encode().hex().encode()))

    seen = await look.report(120)
    # The one place that holds it on purpose shows that the hunt finds what is there.
    assert seen == {"found": ["workspace/decoy.txt"], "environment": []}
    order_json = (look.directory.path.parent / "iw-other" / "order.json").read_text()
    assert secret not in order_json


async def test_only_the_app_is_reachable(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App, unused_listener: int
) -> None:
    ports = json.dumps({"loopback": unused_listener}).encode()
    await sandboxes.ensure_created(order_of("reach", system=ports))

    seen = await look.report()

    assert (seen["loopback"], seen["metadata"], seen["outside"]) == (False, False, False)
    assert seen["interfaces"] == ["lo"]
    assert (seen["app"], seen["model"], seen["proxy"]) == ("first", "first", None)
    assert "GET /api/v1/sandboxes/sbx_1/model/v1/messages HTTP/1.1" in app.requests


async def test_allowed_hosts_bring_the_connect_proxy(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App, unused_listener: int
) -> None:
    ports = json.dumps({"loopback": unused_listener}).encode()
    await sandboxes.ensure_created(order_of("reach", system=ports, allow_hosts=("packages.example",)))

    seen = await look.report()

    assert seen["proxy"].startswith("HTTP/1.1 200")
    assert "CONNECT packages.example:443 HTTP/1.1" in app.requests
    assert (seen["loopback"], seen["metadata"], seen["outside"]) == (False, False, False)


async def test_app_that_restarted_with_a_new_socket_is_found_again(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("ask_again"))
    await look.report()

    await app.stop()
    app.word = "second"
    await app.start()

    ended = await look.ended()
    assert ended.exit_code == 0
    assert (await look.report())["answers"] == ["first", "second"]


async def test_directory_and_token_are_the_owners_alone_and_no_secret_is_on_a_command_line(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    order = order_of("wait")
    await sandboxes.ensure_created(order)
    await look.report()

    assert stat.S_IMODE(look.directory.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(look.directory.token.stat().st_mode) == 0o600
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = entry.joinpath("cmdline").read_bytes()
            except OSError:
                continue
            assert order.token.encode() not in line


@pytest.fixture
async def unused_listener():
    """A service on the host's loopback that a sandbox must not reach."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
