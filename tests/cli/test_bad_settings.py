from __future__ import annotations

import os
import re
import socket
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.cli.running import COMMAND, Issuewright, protect


def pem(bits: int | None, *, locked: bool = False) -> str:
    """A private key: RSA, or with None one of an elliptic curve."""
    key = rsa.generate_private_key(65537, bits) if bits else ec.generate_private_key(ec.SECP256R1())
    lock = serialization.BestAvailableEncryption(b"word") if locked else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock).decode()


CUT_OFF = "\n".join(pem(2048).splitlines()[:5])
NO_APP = {"GITHUB_APP_ID": None, "GITHUB_APP_PRIVATE_KEY": None, "GITHUB_WEBHOOK_SECRET": None}

BAD: dict[str, tuple[list[str], dict[str, str | None], list[str]]] = {
    "nothing set: web": (["web"], NO_APP, list(NO_APP)),
    "nothing set: worker": (["worker"], NO_APP, list(NO_APP)),
    "nothing set: up": (["up"], NO_APP, list(NO_APP)),
    "key file missing": (["up"], {"GITHUB_APP_PRIVATE_KEY": "/nowhere/key.pem"}, ["GITHUB_APP_PRIVATE_KEY"]),
    "key is no key": (["up"], {"GITHUB_APP_PRIVATE_KEY": "/etc/hostname"}, ["GITHUB_APP_PRIVATE_KEY"]),
    "key file without an end": (["up"], {"GITHUB_APP_PRIVATE_KEY": "/dev/zero"}, ["GITHUB_APP_PRIVATE_KEY"]),
    "key is a directory": (["up"], {"GITHUB_APP_PRIVATE_KEY": "/etc"}, ["GITHUB_APP_PRIVATE_KEY"]),
    "key is cut off": (["up"], {"GITHUB_APP_PRIVATE_KEY": CUT_OFF}, ["can't be read"]),
    "key is cut off: worker": (["worker"], {"GITHUB_APP_PRIVATE_KEY": CUT_OFF}, ["can't be read"]),
    "key is locked": (["up"], {"GITHUB_APP_PRIVATE_KEY": pem(2048, locked=True)}, ["can't be read"]),
    "key is of another kind": (["up"], {"GITHUB_APP_PRIVATE_KEY": pem(None)}, ["not an RSA key"]),
    "one GitHub, half said": (["up"], {"GITHUB_API_URL": None}, ["GITHUB_API_URL"]),
    "host is not here": (["web"], {"HOST": "192.0.2.1"}, ["issuewright migrate"]),
    "host is not here: up": (["up"], {"HOST": "192.0.2.1"}, ["HOST"]),
    "host is no name": (["up"], {"HOST": "no such host"}, ["HOST"]),
    "home is a file": (["up"], {"ISSUEWRIGHT_HOME": "/etc/hostname"}, ["ISSUEWRIGHT_HOME"]),
    "database without a file": (["migrate"], {"DATABASE_URL": "sqlite+aiosqlite://"}, ["DATABASE_URL"]),
    "database where nothing can be: migrate": (
        ["migrate"],
        {"DATABASE_URL": "sqlite+aiosqlite:////proc/issuewright/x.db"},
        ["DATABASE_URL: sqlite+aiosqlite:////proc/issuewright/x.db can't be used"],
    ),
    "SQLite on another machine": (["web"], {"DATABASE_URL": "sqlite+aiosqlite://host/x"}, ["DATABASE_URL"]),
    "SQLite with options": (["web"], {"DATABASE_URL": "sqlite+aiosqlite:///x?mode=ro"}, ["DATABASE_URL"]),
    "SQLite path that is none": (
        ["migrate"],
        {"DATABASE_URL": "sqlite+aiosqlite:///a%00b"},
        ["DATABASE_URL"],
    ),
    "app id is no number": (["web"], {"GITHUB_APP_ID": "my-app"}, ["GITHUB_APP_ID"]),
    "port is no number": (["web"], {"PORT": "http"}, ["PORT"]),
    "two at once": (["web"], {"PORT": "70000", "IDLE_S": "-1"}, ["PORT", "IDLE_S"]),
    "database driver": (["migrate"], {"DATABASE_URL": "mysql://db/x"}, ["DATABASE_URL"]),
    "key is locked: web": (["web"], {"GITHUB_APP_PRIVATE_KEY": pem(2048, locked=True)}, ["can't be read"]),
    "allowed host is a URL": (
        ["worker"],
        {"SANDBOX_ALLOW_HOSTS": "pypi.example https://files.example"},
        ["SANDBOX_ALLOW_HOSTS"],
    ),
    "allowed host is an address": (["up"], {"SANDBOX_ALLOW_HOSTS": "10.0.0.1"}, ["SANDBOX_ALLOW_HOSTS"]),
    "redis scheme": (["up"], {"REDIS_URL": "http://cache"}, ["REDIS_URL"]),
    "unknown provider": (["up"], {"SANDBOX_PROVIDER": "docker"}, ["SANDBOX_PROVIDER"]),
    "prices": (["web"], {"MODEL_PRICES": "some-model=cheap"}, ["MODEL_PRICES"]),
    "home can not be made": (["up"], {"ISSUEWRIGHT_HOME": "/proc/issuewright"}, ["ISSUEWRIGHT_HOME"]),
    "no such config": (["--config", "nowhere.yaml", "migrate"], {}, ["nowhere.yaml"]),
    "no such config, said after": (["migrate", "--config", "nowhere.yaml"], {}, ["nowhere.yaml"]),
    "schema missing: web": (["web"], {}, ["issuewright migrate"]),
    "schema missing: worker": (["worker"], {}, ["issuewright migrate"]),
    "schema missing: list": (["specs", "list"], {}, ["issuewright migrate"]),
    "daytona without a key": (["up"], {"SANDBOX_PROVIDER": "daytona"}, ["DAYTONA_API_KEY"]),
    "daytona with snapshot and image": (
        ["up"],
        {
            "SANDBOX_PROVIDER": "daytona",
            "DAYTONA_API_KEY": "k",
            "SANDBOX_SNAPSHOT": "a",
            "SANDBOX_IMAGE": "b",
        },
        ["SANDBOX_SNAPSHOT, SANDBOX_IMAGE"],
    ),
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


@pytest.mark.parametrize("name", ["two at once", "key is cut off: worker", "schema missing: worker"])
def test_wrong_settings_are_told_within_two_seconds(issuewright: Issuewright, name: str) -> None:
    arguments, changes, _ = BAD[name]
    answer = issuewright.run_cold(*arguments, **changes)
    assert answer.code == 2, answer.err
    # CPU time: the machine may be busy, two seconds of work are still too much.
    assert answer.cpu_s < 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no_such_key: 1", "NO_SUCH_KEY"),
        ("port: [", "line 1"),
        ("- a", "mapping"),
        ("port: eighty", "PORT"),
        ("PORT: 80", "lower case"),
        ("{" * 3000, "nested too deeply"),
        ("port: 8001\nmodel: m\n'port': 8002", "issuewright.yaml, line 3: `port` stands there twice"),
        ("port: 1" + "0" * 5000, "PORT"),
        ("port: 2026-99-99", "PORT"),
        ("model: !!timestamp now", "tags"),
        ('model: "\\UFFFFFFFF"', "characters that YAML does not allow"),
        ("model: 0123", "in quotes"),
    ],
)
def test_wrong_yaml_exits_2_naming_what(issuewright: Issuewright, text: str, words: str) -> None:
    (issuewright.home / "issuewright.yaml").write_text(text)
    answer = issuewright.run("migrate", PORT=None)
    assert answer.code == 2
    assert len(answer.err.splitlines()) == 1
    assert words.lower() in answer.err.lower()


def test_registered_app_that_says_something_twice_exits_2_naming_file_and_key(
    issuewright: Issuewright,
) -> None:
    stored = issuewright.home / "github-app.yaml"
    stored.write_text("github_app_id: 1\ngithub_app_id: 2\n")
    answer = issuewright.run("migrate")
    assert answer.code == 2
    assert answer.err == f"{stored}, line 2: `github_app_id` stands there twice\n"


@pytest.mark.parametrize("points", ["claim", "nowhere.before=kill", "claim.before=kill@often"])
def test_points_to_crash_at_that_do_not_exist_exit_2(issuewright: Issuewright, points: str) -> None:
    assert issuewright.run("migrate").code == 0
    for command in ("web", "worker"):
        answer = issuewright.run(command, CRASH_POINTS=points)
        assert answer.code == 2, answer.err
        assert answer.err.splitlines()[-1].startswith("CRASH_POINTS: ")


def test_env_file_that_is_no_text_exits_2_naming_it(issuewright: Issuewright) -> None:
    (issuewright.home / ".env").write_bytes(b"PORT=80\xff\n")
    answer = issuewright.run("migrate")
    assert answer.code == 2
    assert answer.err.startswith(".env: not UTF-8")
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("MODEL=a\nMODEL=b\n", ".env, line 2: `MODEL` stands there twice (line 1, too); remove one\n"),
        (
            "# ours\n\nmodel=a\nLOG_LEVEL='info'\n\n# again\nexport Model=\n",
            ".env, line 7: `MODEL` stands there twice (line 3, too); remove one\n",
        ),
    ],
)
def test_env_file_that_says_something_twice_exits_2_naming_the_lines(
    issuewright: Issuewright, text: str, line: str
) -> None:
    (issuewright.home / ".env").write_text(text)
    answer = issuewright.run("migrate")
    assert (answer.code, answer.err) == (2, line)


def test_env_file_may_say_twice_what_is_another_programs(issuewright: Issuewright) -> None:
    (issuewright.home / ".env").write_text(
        'COMPOSE_PROFILES=a\nCOMPOSE_PROFILES=b\nMODEL="x\nMODEL=y"\n# MODEL=z\n'
    )
    assert issuewright.run("migrate").code == 0


def test_port_in_use_exits_2_before_anything_starts(issuewright: Issuewright) -> None:
    with socket.create_server(("127.0.0.1", issuewright.port)):
        answer = issuewright.run("up")
    assert answer.code == 2
    assert answer.err.startswith("PORT:")
    assert not (issuewright.home / "issuewright.db").exists()


def test_port_in_use_is_told_by_web_within_two_seconds_and_in_one_line(issuewright: Issuewright) -> None:
    assert issuewright.run("migrate").code == 0
    with socket.create_server(("127.0.0.1", issuewright.port)):
        answer = issuewright.run_cold("web")
    assert answer.code == 2
    assert answer.err.startswith("PORT:")
    assert len(answer.err.splitlines()) == 1
    # CPU time, as above.
    assert answer.cpu_s < 2


@pytest.mark.parametrize("command", ["migrate", "up", "web", "specs list"])
def test_database_server_that_is_away_is_told_in_one_line_and_is_no_wrong_setting(
    issuewright: Issuewright, command: str
) -> None:
    """It may be back when a supervisor starts the command again; after exit code 2 none would."""
    answer = issuewright.run(*command.split(), DATABASE_URL="postgresql+asyncpg://user:word@127.0.0.1:9/name")
    assert answer.code == 1
    assert re.fullmatch(
        r"issuewright: DATABASE_URL: .*127\.0\.0\.1:9/name can't be used \(.+\); see that it runs and is right",
        answer.err.splitlines()[-1],
    )
    assert "word" not in answer.err


def set_schema(issuewright: Issuewright, revision: str) -> None:
    with closing(sqlite3.connect(issuewright.home / "issuewright.db")) as db:
        db.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        db.commit()


def test_database_of_a_newer_release_exits_2(issuewright: Issuewright) -> None:
    assert issuewright.run("migrate").code == 0
    set_schema(issuewright, "29990101_0000")
    for command in (["web"], ["worker"], ["up"], ["migrate"], ["specs", "list"]):
        answer = issuewright.run(*command)
        assert answer.code == 2, answer.err
        assert "newer release" in answer.err


READ_ONLY_LINE = r"DATABASE_URL: .*issuewright\.db can't be used \(.*readonly.*\); set it to one that can"


@pytest.mark.parametrize("command", ["web", "worker", "up"])
def test_database_that_can_only_be_read_exits_2_with_one_line(
    issuewright: Issuewright, migrated: Path, command: str
) -> None:
    protect(migrated)
    answer = issuewright.run_cold(command)
    assert answer.code == 2, answer.err
    assert re.fullmatch(READ_ONLY_LINE, answer.err.splitlines()[-1])
    assert answer.out == ""
    # CPU time, as above.
    assert answer.cpu_s < 2


@pytest.mark.parametrize("command", ["web", "worker", "up", "migrate", "specs list"])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE delivery (parcel TEXT)",
        "CREATE VIEW spec AS SELECT 1",
        "CREATE TABLE alembic_version AS SELECT 'ae1027a6acf' AS version_num",
    ],
)
def test_database_of_another_program_exits_2_and_is_left_alone(
    issuewright: Issuewright, statement: str, command: str
) -> None:
    path = issuewright.home / "issuewright.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()
    before = path.read_bytes()
    answer = issuewright.run(*command.split())
    assert answer.code == 2, answer.err
    assert re.fullmatch(
        r"DATABASE_URL: .*issuewright\.db belongs to another program.*", answer.err.splitlines()[-1]
    )
    assert path.read_bytes() == before


def test_database_at_an_older_schema_exits_2_for_all_but_those_that_bring_it_up(
    issuewright: Issuewright,
) -> None:
    assert issuewright.run("migrate").code == 0
    set_schema(issuewright, "20261128_0252")
    for command in (["web"], ["worker"], ["specs", "list"]):
        answer = issuewright.run(*command)
        assert answer.code == 2, answer.err
        assert answer.err.splitlines()[-1].endswith("run `issuewright migrate`")


def test_two_migrators_at_once_bring_the_database_up_once(issuewright: Issuewright) -> None:
    both = [
        subprocess.Popen(
            [*COMMAND, "migrate"],
            env=issuewright.environment(),
            cwd=issuewright.home,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    told = sorted(one.communicate(timeout=60)[0] for one in both)
    assert [one.returncode for one in both] == [0, 0]
    assert told[0].startswith("applied")
    assert told[1].startswith("nothing to do")


def test_what_killed_processes_left_behind_is_no_obstacle(issuewright: Issuewright) -> None:
    run = issuewright.home / "run"
    (run / "gw").mkdir(parents=True)
    for path in (run / "redis.sock", run / "gw" / "gateway.sock", run / "gw" / "proxy.sock"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
            left.bind(str(path))
    (run / "redis.pid").write_text("1\n")
    (issuewright.home / "up.lock").write_text("1\n")
    with issuewright.up():
        again = issuewright.run("up")
        assert again.code == 2
        assert "in use by another `issuewright up`" in again.err
        web = issuewright.run("web", PORT="0")
        assert web.code == 2
        assert "another web process serves" in web.err


@pytest.mark.parametrize("left", ["a directory", "a pipe", "a link to nowhere", "a link to itself"])
def test_lock_that_can_not_be_one_exits_2_naming_it_before_anything_starts(
    issuewright: Issuewright, left: str
) -> None:
    lock = issuewright.home / "up.lock"
    if left == "a directory":
        lock.mkdir()
    elif left == "a pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to("/nowhere/up.lock" if left == "a link to nowhere" else lock)
    answer = issuewright.run_cold("up")
    assert answer.code == 2, answer.err
    assert re.fullmatch(
        rf"ISSUEWRIGHT_HOME: {re.escape(str(lock))} can't be locked \(.+\); remove it, .*\n", answer.err
    )
    assert not (issuewright.home / "issuewright.db").exists()


@pytest.mark.parametrize(
    "place", ["run/redis.sock", "run/redis.pid", "run/gw/gateway.sock", "run/gw/proxy.sock", "logs"]
)
def test_something_else_where_a_socket_or_log_belongs_is_named_in_one_line_and_stops_up_with_2(
    issuewright: Issuewright, place: str
) -> None:
    in_the_way = issuewright.home / place
    if place == "logs":
        in_the_way.touch()
    else:
        in_the_way.mkdir(parents=True)
    answer = issuewright.run_cold("up")
    assert answer.code == 2, answer.err
    said = [line for line in answer.err.splitlines() if not line.startswith("{")]
    assert len(said) == 1, answer.err
    assert said[0].startswith(f"ISSUEWRIGHT_HOME: {in_the_way} can't be ")


@pytest.mark.parametrize("left", [b"", b"\xff\x00", b"a host name\n"], ids=["nothing", "no text", "no name"])
def test_file_without_this_machines_name_exits_2_for_all_that_would_go_by_it(
    issuewright: Issuewright, migrated: Path, left: bytes
) -> None:
    (migrated.parent / "host-id").write_bytes(left)
    for command in ("web", "worker"):
        answer = issuewright.run(command)
        assert answer.code == 2, answer.err
        assert re.match(
            r"ISSUEWRIGHT_HOME: .*/host-id does not hold .*remove it", answer.err.splitlines()[-1]
        )


@pytest.mark.parametrize(
    "arguments",
    [
        *(["frobnicate"], ["up", "--fast"], ["specs", "show"], ["specs", "list", "-n", "0"]),
        # Within an address each of these would lead to something else than a sandbox or spec.
        *(
            ["sandboxes", "events", "health"],
            ["sandboxes", "logs", ""],
            ["sandboxes", "compare", "..", "a b"],
        ),
        *(["specs", "bundle", "spec_a/b"], ["tasks", "show", "task_\n"], ["specs", "show", "spec_\udcff"]),
        *(["sandboxes", "show", "sbx_" + "a" * 100_000], ["messages", "send", "\udcff", "Hello"]),
        *(["deliveries", "replay", "\udcff"], ["register", "--timeout", "9" * 30]),
        *(["specs", "bundle", "spec_a", "-o", ""], ["specs", "bundle", "spec_a", "-o", "/nowhere/x"]),
    ],
    ids=lambda words: " ".join(words)[:40].encode(errors="replace").decode(),
)
def test_wrong_usage_exits_2_and_shows_the_way(issuewright: Issuewright, arguments: list[str]) -> None:
    answer = issuewright.run(*arguments)
    assert answer.code == 2
    assert "Error:" in answer.err
    assert "-h" in answer.err
