"""What docs/operations.md tells people to do is done here, and what it names exists."""

from __future__ import annotations

import hmac
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import httpx
import pytest
from cryptography.hazmat.primitives import serialization

from app.settings import Settings
from app.web.metrics import Metrics
from app.web.ports import Limits
from sandbox_payload.wire import MAX_ARTIFACT_BYTES, MAX_WAIT_S
from tests.cli.running import Issuewright, new_key, until
from tests.cli.warm import WarmCommands
from tests.docs.markdown import ROOT, code_block
from tests.flow.repository import Repository
from tests.flow.test_interference import start_held
from tests.flow.world import World

PAGE = ROOT / "docs" / "operations.md"
TEXT = PAGE.read_text()


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A product of its own: it is stopped, restored and given other keys."""
    if sys.platform != "linux":
        pytest.skip("looks at /proc")
    with World.running("process") as own:
        yield own


def run_block(title: str, **environment: str) -> str:
    """Run a block of the page as people would; what it printed."""
    commands = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code_block(PAGE, title)], env={**environment, "PATH": commands},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_command(*words: str, settings: Mapping[str, str]) -> str:
    command = [sys.executable, "-P", "-m", "app", *words]
    environment = {**settings, "PATH": os.environ["PATH"]}
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def stop(world: World) -> None:
    assert world.up is not None
    world.up.send_signal(signal.SIGTERM)
    assert world.up.wait(timeout=60) == 0, world.log_tail("up")


def places(world: World, backup: Path) -> dict[str, str]:
    return world.environment | {"BACKUP": str(backup)}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd")
def test_unit_file_is_one_that_systemd_understands(tmp_path: Path) -> None:
    unit = tmp_path / "issuewright.service"
    command = Path(sys.executable).with_name("issuewright")
    text = code_block(PAGE, unit.name).replace("/opt/issuewright/.venv/bin/issuewright", str(command))
    unit.write_text(text.replace("User=issuewright", "User=root"))
    verify = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(verify, check=False, capture_output=True, text=True, timeout=60)
    said = [line for line in (done.stdout + done.stderr).splitlines() if unit.name in line]
    assert (done.returncode, said) == (0, [])


# ------------------------------------------------------------ restoring yesterday's database


def test_restored_sqlite_database_goes_on_as_the_page_says(world: World, tmp_path: Path) -> None:
    running, number = start_held(world, "restored")
    reviewed = world.repository()
    reviewed.run("edit_readme")
    running.wait_gate("restored")
    run_block("Back up SQLite", **places(world, tmp_path))
    assert (tmp_path / "issuewright.db").stat().st_mode & 0o077 == 0

    world.github.merge_pull(reviewed.name, reviewed.pull()["number"], "alice")
    later = world.repository()
    later_number = later.start("edit_readme")
    world.open_gate("restored")
    for kit in (running, reviewed, later):
        kit.rest()
    stop(world)
    let_a_day_pass(tmp_path / "issuewright.db")
    run_block("Restore SQLite", **places(world, tmp_path))
    world.start_up()
    later.unlabel(later_number)
    later.label(later_number)
    running.rest()

    world.wait(lambda: "Merged" in reviewed.status(1), "the merge is found")
    assert_only_one_of_each(running, number)
    assert "Somebody else pushed to the branch" in running.status(number)
    assert "Done" in running.status(number)

    world.wait(lambda: len(later.pulls()) == 2 and not later.pulls()[1]["draft"], "a second pull request")
    later.rest()
    assert later.pulls()[1]["head"]["ref"] == later.pulls()[0]["head"]["ref"] + "-2"


def let_a_day_pass(path: Path) -> None:
    """Yesterday's database says of everything that its time to be looked at has come."""
    connection = sqlite3.connect(path)
    with connection:
        past = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        connection.execute("UPDATE spec SET due_at = ? WHERE due_at IS NOT NULL", (past,))
    connection.close()


def assert_only_one_of_each(kit: Repository, number: int) -> None:
    assert kit.branches() == {"main", kit.pull()["head"]["ref"]}
    assert kit.status(number)
    kit.checks()  # Fails when a head has two.


@pytest.mark.needs_postgres
@pytest.mark.skipif(shutil.which("pg_dump") is None, reason="no pg_dump")
def test_restored_postgres_database_is_as_it_was_when_it_was_backed_up(
    tmp_path: Path, new_postgres: Callable[[], str]
) -> None:
    url = new_postgres()
    settings = {
        "DATABASE": url.replace("+asyncpg", ""),
        "DATABASE_URL": url,
        "ISSUEWRIGHT_HOME": str(tmp_path / "home"),
        "BACKUP": str(tmp_path),
    }
    run_command("migrate", settings=settings)
    record(settings["DATABASE"], "before")
    run_block("Back up PostgreSQL", **settings)
    record(settings["DATABASE"], "after")
    assert "nothing to do" in run_block("Restore PostgreSQL", **settings)
    assert psql(settings["DATABASE"], "SELECT id FROM delivery").split() == ["before"]


@pytest.fixture
def new_postgres() -> Iterator[Callable[[], str]]:
    """Makes empty databases, gone after the test."""
    server = os.environ["ISSUEWRIGHT_TEST_POSTGRES_URL"].replace("+asyncpg", "")
    made: list[str] = []

    def make() -> str:
        made.append(f"iw_{uuid4().hex[:12]}")
        psql(server, f"CREATE DATABASE {made[-1]}")
        return os.environ["ISSUEWRIGHT_TEST_POSTGRES_URL"].rpartition("/")[0] + f"/{made[-1]}"

    yield make
    for name in made:
        psql(server, f"DROP DATABASE {name} WITH (FORCE)")


def psql(server: str, statement: str) -> str:
    command = ["psql", "--quiet", "--tuples-only", server, "--command", statement]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


def record(server: str, name: str) -> None:
    values = f"'{name}', 'ping', '{{}}', '{{}}', now(), 'received', 0"
    columns = "id, event, headers, body, received_at, state, attempts"
    psql(server, f"INSERT INTO delivery ({columns}) VALUES ({values})")


# ------------------------------------------------------------ keys


def test_webhook_secret_is_rotated_without_refusing_a_delivery(warm_commands: WarmCommands) -> None:
    with TemporaryDirectory(prefix="iw-") as home:
        receiver = Issuewright(Path(home), new_key(), warm_commands)
        assert receiver.run("migrate").code == 0
        assert answers(receiver, "old", "old", "new") == [202, 401]
        assert answers(receiver, "new,old", "old", "new") == [202, 202]
        assert answers(receiver, "new", "old", "new") == [401, 202]


def answers(receiver: Issuewright, accepted: str, *signed_with: str) -> list[int]:
    """A web process that is started with the secrets `accepted`, and what it answers to deliveries signed with others."""
    with (receiver.home / "web.log").open("ab") as log:
        process = receiver.start("web", outputs=(log, log), GITHUB_WEBHOOK_SECRET=accepted)
    url = f"http://127.0.0.1:{receiver.port}"
    try:
        until(lambda: is_up(url), "the web process is not up", within_s=60)
        return [deliver(url, secret) for secret in signed_with]
    finally:
        process.terminate()
        process.wait(timeout=20)


def is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def deliver(url: str, secret: str) -> int:
    body = b'{"zen": "Keep it short."}'
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "ping",
        "X-GitHub-Delivery": str(uuid4()),
        "X-Hub-Signature-256": f"sha256={hmac.new(secret.encode(), body, 'sha256').hexdigest()}",
    }
    return httpx.post(f"{url}/webhooks/github", content=body, headers=headers, trust_env=False).status_code


def test_private_key_and_operator_token_are_rotated_while_an_agent_works(world: World) -> None:
    kit, number = start_held(world, "rekeyed")
    kit.wait_gate("rekeyed")
    key = new_key()
    public = serialization.load_pem_private_key(key.encode(), None).public_key()
    stop(world)
    world.github.update_app(
        int(world.github_app["id"]),
        public_key_pem=public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ).decode(),
    )
    world.github_app["pem"] = key
    world.open_gate("rekeyed")
    world.start_up(API_TOKEN="another operator's token")
    kit.rest()
    assert "Done" in kit.status(number)
    assert_only_one_of_each(kit, number)
    assert "before.txt" in kit.changed()
    assert world.app.get("/api/v1/specs").status_code == 401
    token = {"Authorization": "Bearer another operator's token"}
    assert world.app.get("/api/v1/specs", headers=token).status_code == 200


# ------------------------------------------------------------ deliveries


def test_replayed_delivery_causes_nothing_twice(world: World) -> None:
    kit = world.repository()
    kit.run("edit_readme")
    before = len(kit.writes())
    listed = run_command("deliveries", "list", "--json", settings=world.environment)
    guid = next(one["id"] for one in json.loads(listed)["items"] if one["intent"] == "start")
    run_block("Replay a delivery", GUID=guid, **world.environment)
    kit.poke()
    assert len(kit.writes()) == before
    assert len(kit.pulls()) == 1


# ------------------------------------------------------------ what the page names


def test_every_metric_on_the_page_is_one_that_web_processes_have() -> None:
    metrics = Metrics()
    known = {
        (sample, label)
        for family in metrics.registry.collect()
        for sample in (f"{family.name}_total" if family.type == "counter" else family.name,)
        for label in ("", *labels_of(metrics, family.name))
    }
    table = TEXT.split("## Metrics worth an alert")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)
    shown = {(name, "") for name, _ in rows}
    shown |= {(name, label) for name, words in rows for label in re.findall(r'`(\w+)="', words)}
    assert shown - known == set()
    assert len(rows) > 5
    inline = set(re.findall(r"`(issuewright_\w+)", TEXT))
    assert inline <= {name for name, _ in known}


def labels_of(metrics: Metrics, family: str) -> tuple[str, ...]:
    """The names of a metric's labels, which the library shows of collectors only."""
    for collector in vars(metrics).values():
        if getattr(collector, "_name", None) == family:
            return tuple(collector._labelnames)
    return ()


def test_numbers_for_the_proxy_are_the_ones_in_force() -> None:
    limits = Limits()
    section = TEXT.split("## Reverse proxy")[1].split("\n## ")[0]
    shown = {
        "bodies of 25 MB": limits.webhook_bytes // 1024**2 == 25,
        "within 5 s": limits.webhook_body_s == 5,
        "take 25 s": MAX_WAIT_S == 25,
        "bodies of 100 MB": MAX_ARTIFACT_BYTES == 100_000_000,
        "10 min of silence": limits.upstream_read_s == 600,
    }
    assert [words for words, true in shown.items() if words not in section or not true] == []


def test_every_setting_on_the_page_exists() -> None:
    settings = {name.upper() for name in Settings.model_fields}
    assert set(re.findall(r"`([A-Z]+_[A-Z_]+)[`=]", TEXT)) - settings == set()
