from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.github.manifest import load_manifest
from app.sandbox import breakout
from simulators.github.control import Control
from simulators.github.server import running
from tests.cli.running import Answer, Issuewright, until

MODEL_KEY = "a-model-key-of-tests"
EVERYTHING = [
    *("configuration", "state directory", "database", "redis", "git", "sandbox", "model"),
    *("clock", "credentials", "permissions", "installations", "webhook", "deliveries"),
]
SECRET = "a webhook secret"


@pytest.fixture
def github(home: Path) -> Iterator[Control]:
    (home / "github").mkdir()
    with running(home / "github") as (_, control):
        control.create_user("alice")
        control.create_org("acme", ["alice"])
        yield control


@pytest.fixture(scope="module")
def model_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    ready = tmp_path_factory.mktemp("model") / "ready"
    arguments = ["--port", "0", "--ready-file", str(ready), "--api-key", MODEL_KEY]
    process = subprocess.Popen([sys.executable, "-m", "simulators", "model", *arguments])
    try:
        until(ready.exists, "the simulated model did not start")
        yield str(json.loads(ready.read_text())["url"])
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def app(issuewright: Issuewright, github: Control, model_url: str) -> dict[str, Any]:
    """The App as the settings of `issuewright` say, with everything right, not installed."""
    manifest = load_manifest()
    made = github.create_app(
        "Issuewright",
        "acme",
        manifest["default_permissions"],
        manifest["default_events"],
        webhook_url=f"http://127.0.0.1:{issuewright.port}/webhooks/github",
        webhook_secret=SECRET,
    )
    issuewright.settings |= {
        "GITHUB_URL": github.url,
        "GITHUB_API_URL": f"{github.url}/api/v3",
        "GITHUB_APP_ID": str(made["id"]),
        "GITHUB_APP_PRIVATE_KEY": made["pem"],
        "GITHUB_WEBHOOK_SECRET": SECRET,
        "ANTHROPIC_BASE_URL": model_url,
        "ANTHROPIC_API_KEY": MODEL_KEY,
        "MODEL": "some-model",
    }
    return dict(made)


def examined(answer: Answer) -> dict[str, dict[str, str]]:
    """The checks by name."""
    seen = json.loads(answer.out)
    assert seen["ok"] is (answer.code == 0)
    return {one["name"]: one for one in seen["checks"]}


def pings(github: Control) -> list[dict[str, Any]]:
    return [dict(one) for one in github.deliveries("ping")]


def states(checks: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: check["state"] for name, check in checks.items() if check["state"] != "ok"}


@pytest.mark.needs_bubblewrap
def test_when_everything_is_right_each_line_says_so(
    issuewright: Issuewright, github: Control, app: dict[str, Any]
) -> None:
    issuewright.settings["SANDBOX_PROVIDER"] = "bubblewrap"
    with issuewright.up():
        installation = github.install(app["id"], "acme", by="alice")
        checks = examined(issuewright.run("doctor", "--json"))
        assert list(checks) == EVERYTHING
        assert states(checks) == {}, checks
        assert checks["credentials"]["detail"].startswith(f"issuewright (id {app['id']}) of acme")
        assert "reached neither host nor network" in checks["sandbox"]["detail"]
        lines = issuewright.run("doctor").out.splitlines()
        assert [line.split()[0] for line in lines] == ["ok"] * len(EVERYTHING)

        # Then each of GitHub's sides goes wrong, while everything here stays as it was.
        github.update_app(app["id"], webhook_secret="another secret", ping=True)
        until(lambda: pings(github)[-1]["status_code"] == 401, "the ping was not refused")
        wrong = examined(issuewright.run("doctor", "--json"))
        assert states(wrong) == {"deliveries": "failed"}
        assert "another secret than GITHUB_WEBHOOK_SECRET" in wrong["deliveries"]["detail"]
        github.update_app(app["id"], webhook_url="http://127.0.0.1:9/webhooks/github", ping=True)
        until(lambda: "connect" in pings(github)[-1]["status"], "the ping arrived somewhere")
        wrong = examined(issuewright.run("doctor", "--json"))
        assert states(wrong) == {"webhook": "failed", "deliveries": "failed"}
        assert "GitHub sends to http://127.0.0.1:9/webhooks/github" in wrong["webhook"]["detail"]
        assert f"{github.url}/organizations/acme/settings/apps/issuewright" in wrong["webhook"]["cure"]
        assert "failed to connect" in wrong["deliveries"]["detail"]
        github.suspend(installation["id"], by="alice")
        wrong = examined(issuewright.run("doctor", "--json"))
        assert wrong["installations"]["state"] == "warning"
        assert "acme has suspended" in wrong["installations"]["detail"]


def test_before_anything_runs_there_are_only_warnings(issuewright: Issuewright, app: dict[str, Any]) -> None:
    answer = issuewright.run("doctor", "--json")
    checks = examined(answer)
    assert answer.code == 0, answer.out
    assert states(checks) == dict.fromkeys(
        ("database", "redis", "sandbox", "installations", "deliveries"), "warning"
    )
    assert "`issuewright up`" in checks["database"]["cure"]
    assert "issuewright up" in checks["redis"]["cure"]
    assert "issuewright up" in checks["deliveries"]["cure"]
    assert not (issuewright.home / "issuewright.db").exists()


def test_a_key_of_another_app_is_told_apart_from_an_unknown_app(
    issuewright: Issuewright, github: Control, app: dict[str, Any]
) -> None:
    other = github.create_app("Other", "alice", {"issues": "write"}, [])
    checks = examined(issuewright.run("doctor", "--json", GITHUB_APP_PRIVATE_KEY=other["pem"]))
    assert "belongs to another App" in checks["credentials"]["detail"]
    assert checks["credentials"]["state"] == "failed"
    unknown = examined(issuewright.run("doctor", "--json", GITHUB_APP_ID="999"))
    assert "there is no App 999" in unknown["credentials"]["detail"]
    assert unknown["permissions"]["state"] == "failed"
    answer = issuewright.run("doctor", "--json", GITHUB_APP_PRIVATE_KEY=broken(app["pem"]))
    assert answer.code == 2
    assert "can't be read" in examined(answer)["configuration"]["detail"]


def broken(pem: str) -> str:
    lines = pem.splitlines()
    return "\n".join([lines[0], *lines[3:]])


@pytest.mark.parametrize("ahead_s", [3600, -3600])
def test_a_clock_an_hour_off_spoils_no_other_verdict(
    issuewright: Issuewright, github: Control, app: dict[str, Any], ahead_s: int
) -> None:
    github.skew_clock(ahead_s)
    answer = issuewright.run("doctor", "--json")
    checks = examined(answer)
    assert answer.code == 1
    assert checks["clock"]["state"] == "failed"
    word = "behind" if ahead_s > 0 else "ahead of"
    assert f"s {word} GitHub's" in checks["clock"]["detail"]
    assert "NTP" in checks["clock"]["cure"]
    assert checks["credentials"]["state"] == "ok"


def test_permissions_and_events_are_held_against_the_manifest(
    issuewright: Issuewright, github: Control, app: dict[str, Any]
) -> None:
    wanted = dict(load_manifest()["default_permissions"])
    events = list(load_manifest()["default_events"])
    wanted.pop("checks")
    installation = github.install(app["id"], "acme", by="alice")
    github.accept_permissions(installation["id"], "alice", {**wanted, "issues": "read"})
    github.update_app(
        app["id"],
        permissions={**wanted, "administration": "write"},
        events=[e for e in events if e != "issues"],
    )
    answer = issuewright.run("doctor", "--json")
    checks = examined(answer)
    assert answer.code == 1
    assert "lacks checks: write" in checks["permissions"]["detail"]
    assert "no issues events" in checks["permissions"]["detail"]
    page = f"{github.url}/organizations/acme/settings/apps/issuewright/permissions"
    assert page in checks["permissions"]["cure"]
    assert "acme has not granted checks: write, issues: write" in checks["installations"]["detail"]
    assert installation["html_url"] in checks["installations"]["cure"]
    github.update_app(
        app["id"],
        permissions={**load_manifest()["default_permissions"], "administration": "write"},
        events=events,
    )
    more = examined(issuewright.run("doctor", "--json"))["permissions"]
    assert more["state"] == "warning"
    assert "administration: write" in more["detail"]


def test_what_is_wrong_on_this_machine_is_all_said_in_one_run(
    issuewright: Issuewright, app: dict[str, Any]
) -> None:
    home = issuewright.home
    (home / "github-app.yaml").write_text("github_app_slug: issuewright\n")
    (home / "github-app.yaml").chmod(0o644)
    home.chmod(0o755)
    (home / "key.pem").write_text(app["pem"])
    (home / "key.pem").chmod(0o644)
    answer = issuewright.run(
        *("doctor", "--json"),
        GITHUB_APP_PRIVATE_KEY=str(home / "key.pem"),
        REDIS_URL="redis://127.0.0.1:9/0",
        DATABASE_URL="postgresql+asyncpg://u:hidden-password@127.0.0.1:9/x",
        ANTHROPIC_API_KEY="another-key-than-it",
        SANDBOX_PROVIDER="daytona",
        PATH=str(home),
    )
    checks = examined(answer)
    assert answer.code == 1
    found = {name: check["detail"] for name, check in checks.items() if check["state"] == "failed"}
    assert "(0755)" in found["state directory"]
    assert "github-app.yaml (0644)" in found["state directory"]
    assert f"chmod 700 {home}" in checks["state directory"]["cure"]
    assert "127.0.0.1:9" in found["database"]
    assert "REDIS_URL" in found["redis"]
    assert "not installed" in found["git"]
    assert "refuses the key (401" in found["model"]
    assert "DAYTONA_API_KEY" in found["sandbox"]
    assert checks["credentials"]["state"] == "ok"
    for hidden in ("hidden-password", "another-key-than-it", SECRET):
        assert hidden not in answer.out + answer.err


def test_a_home_that_can_not_be_made_is_told_by_name_and_breaks_no_other_check(
    issuewright: Issuewright, app: dict[str, Any]
) -> None:
    checks = examined(issuewright.run("doctor", "--json", ISSUEWRIGHT_HOME="/proc/issuewright"))
    assert checks["state directory"]["state"] == "failed"
    assert "/proc/issuewright can't be written" in checks["state directory"]["detail"]
    assert checks["deliveries"]["state"] == "warning"
    assert [one for one in checks.values() if "Error: " in one["detail"]] == []


def test_the_database_is_told_by_its_schema(issuewright: Issuewright, app: dict[str, Any]) -> None:
    assert issuewright.run("migrate").code == 0

    def set_schema(revision: str) -> None:
        with closing(sqlite3.connect(issuewright.home / "issuewright.db")) as db:
            db.execute("UPDATE alembic_version SET version_num = ?", (revision,))
            db.commit()

    set_schema("29990101_0000")
    newer = examined(issuewright.run("doctor", "--json"))["database"]
    assert (newer["state"], "newer release" in newer["detail"]) == ("failed", True)
    set_schema("20261128_0252")
    older = examined(issuewright.run("doctor", "--json"))["database"]
    assert (older["state"], "issuewright migrate" in older["cure"]) == ("failed", True)


def test_a_model_that_is_not_there_is_named(issuewright: Issuewright, app: dict[str, Any]) -> None:
    gone = examined(issuewright.run("doctor", "--json", MODELS="claude-retired-1"))["model"]
    assert gone["state"] == "failed"
    assert "claude-retired-1 is not there" in gone["detail"]
    assert "some-model" not in gone["detail"]
    guardian = examined(issuewright.run("doctor", "--json", GUARDIAN_MODEL="claude-retired-2"))["model"]
    assert (guardian["state"], "claude-retired-2 is not there" in guardian["detail"]) == ("failed", True)
    assert "GUARDIAN_MODEL" in guardian["cure"]
    unset = examined(issuewright.run("doctor", "--json", MODEL=None))["model"]
    assert unset["state"] == "ok"
    missing = examined(issuewright.run("doctor", "--json", ANTHROPIC_API_KEY=None))["model"]
    assert "ANTHROPIC_API_KEY is not set" in missing["detail"]


def test_another_instance_at_the_public_address_is_found_out(
    issuewright: Issuewright, app: dict[str, Any], home: Path
) -> None:
    assert issuewright.run("migrate").code == 0
    with issuewright.up():
        elsewhere = f"sqlite+aiosqlite:///{home / 'other.db'}"
        assert issuewright.run("migrate", DATABASE_URL=elsewhere).code == 0
        other = examined(issuewright.run("doctor", "--json", DATABASE_URL=elsewhere))
        # Its own database knows of no web process, so nothing is said to be broken yet.
        assert "is another instance" in other["deliveries"]["detail"]
        secret = examined(issuewright.run("doctor", "--json", GITHUB_WEBHOOK_SECRET="not that one"))
        assert secret["deliveries"]["state"] == "failed"
        assert "refuses our signature" in secret["deliveries"]["detail"]


def test_missing_settings_exit_2_and_everything_else_is_still_looked_at(issuewright: Issuewright) -> None:
    answer = issuewright.run("doctor", "--json", GITHUB_APP_ID=None, GITHUB_WEBHOOK_SECRET=None)
    assert answer.code == 2
    checks = examined(answer)
    assert checks["configuration"]["state"] == "failed"
    for name in ("GITHUB_APP_ID", "GITHUB_WEBHOOK_SECRET"):
        assert name in checks["configuration"]["detail"]
    assert checks["git"]["state"] == "ok"
    wrong = issuewright.run("doctor", PORT="http")
    assert wrong.code == 2
    assert wrong.err.startswith("PORT: ")


def test_github_that_never_answers_holds_nothing_up(issuewright: Issuewright) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        checks = examined(issuewright.run("doctor", "--json", GITHUB_URL=url, GITHUB_API_URL=url))
    assert checks["clock"]["state"] == "failed"
    assert checks["credentials"]["state"] == "failed"
    assert checks["git"]["state"] == "ok"


def test_the_program_that_tries_the_walls_gets_out_where_there_are_none(tmp_path: Path) -> None:
    """Else its silence inside a sandbox would prove nothing."""
    word = f"issuewright-test-{os.getpid()}"
    bait = tmp_path / "bait"
    bait.write_text("seen")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as abstract,
    ):
        abstract.bind(f"\0{word}")
        abstract.listen()
        done = subprocess.run(
            [sys.executable, "-I", breakout.__file__, word, str(bait), str(server.getsockname()[1])],
            capture_output=True,
            text=True,
            check=True,
        )
    answer = json.loads(done.stdout)
    assert answer["word"] == word
    assert {
        "a file of the host",
        "a server on the host's loopback",
        "an abstract socket of the host",
        "the host's processes",
    } <= set(answer["open"])
