from __future__ import annotations

import socket
import sqlite3
from contextlib import closing

import pytest

from tests.cli.running import Issuewright

NO_APP = {"GITHUB_APP_ID": None, "GITHUB_APP_PRIVATE_KEY": None, "GITHUB_WEBHOOK_SECRET": None}

BAD: dict[str, tuple[list[str], dict[str, str | None], list[str]]] = {
    "nothing set: web": (["web"], NO_APP, list(NO_APP)),
    "nothing set: worker": (["worker"], NO_APP, list(NO_APP)),
    "nothing set: up": (["up"], NO_APP, list(NO_APP)),
    "key file missing": (["up"], {"GITHUB_APP_PRIVATE_KEY": "/nowhere/key.pem"}, ["GITHUB_APP_PRIVATE_KEY"]),
    "key is no key": (["up"], {"GITHUB_APP_PRIVATE_KEY": "/etc/hostname"}, ["GITHUB_APP_PRIVATE_KEY"]),
    "app id is no number": (["web"], {"GITHUB_APP_ID": "my-app"}, ["GITHUB_APP_ID"]),
    "port is no number": (["web"], {"PORT": "http"}, ["PORT"]),
    "two at once": (["web"], {"PORT": "70000", "IDLE_S": "-1"}, ["PORT", "IDLE_S"]),
    "database driver": (["migrate"], {"DATABASE_URL": "mysql://db/x"}, ["DATABASE_URL"]),
    "redis scheme": (["up"], {"REDIS_URL": "http://cache"}, ["REDIS_URL"]),
    "unknown provider": (["up"], {"SANDBOX_PROVIDER": "docker"}, ["SANDBOX_PROVIDER"]),
    "prices": (["web"], {"MODEL_PRICES": "some-model=cheap"}, ["MODEL_PRICES"]),
    "home can not be made": (["up"], {"ISSUEWRIGHT_HOME": "/proc/issuewright"}, ["ISSUEWRIGHT_HOME"]),
    "no such config": (["--config", "nowhere.yaml", "migrate"], {}, ["nowhere.yaml"]),
    "no such config, said after": (["migrate", "--config", "nowhere.yaml"], {}, ["nowhere.yaml"]),
    "schema missing: web": (["web"], {}, ["issuewright migrate"]),
    "schema missing: worker": (["worker"], {}, ["issuewright migrate"]),
    "schema missing: list": (["specs", "list"], {}, ["issuewright migrate"]),
    "daytona demo": (["demo", "--sandbox", "daytona"], {}, ["--sandbox daytona"]),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_settings_exit_2_with_a_line_each(issuewright: Issuewright, name: str) -> None:
    arguments, changes, expected = BAD[name]
    answer = issuewright.run(*arguments, **changes)
    assert answer.code == 2, answer.err
    lines = answer.err.splitlines()
    assert len(lines) == len(expected), answer.err
    for line, words in zip(sorted(lines), sorted(expected), strict=True):
        assert words in line
    assert answer.out == ""
    # CPU time: the machine may be busy, two seconds of work are still too much.
    assert answer.cpu_s < 2


@pytest.mark.parametrize(
    ("text", "words"),
    [("no_such_key: 1", "NO_SUCH_KEY"), ("port: [", "line 1"), ("- a", "mapping"), ("port: eighty", "PORT")],
)
def test_wrong_yaml_exits_2_naming_what(issuewright: Issuewright, text: str, words: str) -> None:
    (issuewright.home / "issuewright.yaml").write_text(text)
    answer = issuewright.run("migrate", PORT=None)
    assert answer.code == 2
    assert len(answer.err.splitlines()) == 1
    assert words.lower() in answer.err.lower()


def test_port_in_use_exits_2_before_anything_starts(issuewright: Issuewright) -> None:
    with socket.create_server(("127.0.0.1", issuewright.port)):
        answer = issuewright.run("up")
    assert answer.code == 2
    assert answer.err.startswith("PORT:")
    assert not (issuewright.home / "issuewright.db").exists()


def test_database_of_a_newer_release_exits_2(issuewright: Issuewright) -> None:
    assert issuewright.run("migrate").code == 0
    with closing(sqlite3.connect(issuewright.home / "issuewright.db")) as db:
        db.execute("UPDATE alembic_version SET version_num = '29990101_0000'")
        db.commit()
    for command in ("web", "migrate"):
        answer = issuewright.run(command)
        assert answer.code == 2
        assert "newer release" in answer.err


@pytest.mark.parametrize(
    "arguments", [["frobnicate"], ["up", "--fast"], ["specs", "show"], ["specs", "list", "-n", "0"]]
)
def test_wrong_usage_exits_2_and_shows_the_way(issuewright: Issuewright, arguments: list[str]) -> None:
    answer = issuewright.run(*arguments)
    assert answer.code == 2
    assert "Error:" in answer.err
    assert "-h" in answer.err
