"""Containerfile and compose.yml. Building an image needs a builder and a network, so here what they say is compared with
the tree, and what the containers would run is run as processes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest
import yaml
from pydantic import SecretStr

from app.queue.embedded import find_server
from app.settings import Settings
from tests.cli.running import COMMAND, free_port, new_key, until
from tests.docs.markdown import ROOT, code_block

COMPOSE = yaml.safe_load((ROOT / "compose.yml").read_text())
OURS: dict[str, dict[str, Any]] = {
    name: service for name, service in COMPOSE["services"].items() if "build" in service
}
SETTINGS_FILE = "/run/secrets/issuewright.yaml"
BUILD, IMAGE = (
    stage.replace("\\\n", " ").splitlines()
    for stage in re.split(r"^FROM ", (ROOT / "Containerfile").read_text(), flags=re.MULTILINE)[1:]
)
"""Both stages' instructions, a line each, the base image first."""
OPERATIONS = ROOT / "docs" / "operations.md"


def values(stage: Sequence[str], instruction: str) -> list[str]:
    return [line.removeprefix(instruction).strip() for line in stage if line.startswith(f"{instruction} ")]


def copied() -> set[str]:
    """What the image takes from the tree."""
    return {source for words in values(BUILD, "COPY") for source in words.split()[:-1]}


def secret_settings() -> set[str]:
    return {
        name.upper()
        for name, field in Settings.model_fields.items()
        if SecretStr in get_args(field.annotation)
    }


def test_what_the_image_copies_exists_and_is_all_that_gets_installed() -> None:
    assert [source for source in copied() if not (ROOT / source).exists()] == []
    project = (ROOT / "pyproject.toml").read_text()
    packages = re.search(r"^include = \[(.+)\]$", project, re.MULTILINE)
    assert packages is not None
    assert {name.rstrip("*") for name in re.findall(r'"([\w*]+)"', packages[1])} <= copied()


def test_the_builder_sees_what_is_copied_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns[0] == "*"
    assert {one.removeprefix("!") for one in patterns if one.startswith("!")} == copied()


def test_packages_are_installed_by_hash_and_the_image_has_a_plain_user_and_no_tools_to_build_with() -> None:
    installs = [one for one in values(BUILD, "RUN") if " install " in one]
    assert [one for one in installs if "--no-deps" not in one] == []
    assert "--require-hashes" in installs[0]
    assert values(IMAGE, "USER") == ["issuewright"]
    assert "uninstall --yes setuptools pip" in values(BUILD, "RUN")[-1]
    assert not re.search(r"\b(gcc|g\+\+|make|build-essential|\S+-dev)\b", " ".join(values(IMAGE, "RUN")))


def test_only_settings_that_exist_and_are_no_secret_stand_in_environments() -> None:
    given = {pair.split("=")[0] for line in values(IMAGE, "ENV") for pair in line.split()} - {"PATH"}
    for service in OURS.values():
        given |= set(service["environment"])
    assert given - {name.upper() for name in Settings.model_fields} == set()
    assert given & secret_settings() == set()


def test_what_services_name_is_declared() -> None:
    for name, service in COMPOSE["services"].items():
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"]), name
        assert {one.split(":")[0] for one in service.get("volumes", ())} <= set(COMPOSE["volumes"]), name
        assert set(service.get("depends_on", ())) <= set(COMPOSE["services"]), name
    assert {"migrate", "web", "worker"} == set(OURS)
    assert "redis" in OURS["web"]["environment"]["REDIS_URL"]


def test_ports_are_published_to_this_machine_only() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert ports == [f"127.0.0.1:{Settings.model_fields['port'].default}:8000"]


class Containers:
    """What compose.yml starts, as processes: the same commands and settings, with places of this machine."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.redis_port = free_port()
        self.settings = home / "issuewright.yaml"
        self.settings.write_text(self._settings_as_documented())
        self.settings.chmod(0o600)

    def _settings_as_documented(self) -> str:
        shown = yaml.safe_load(code_block(OPERATIONS, "secrets/issuewright.yaml"))
        assert set(shown) <= set(Settings.model_fields)
        assert shown["database_url"].endswith("@postgres/issuewright")
        assert COMPOSE["services"]["postgres"]["environment"]["POSTGRES_USER"] == "issuewright"
        return yaml.safe_dump(
            shown
            | {
                "github_app_private_key": new_key(),
                "database_url": f"sqlite+aiosqlite:///{self.home / 'issuewright.db'}",
                # Nobody listens there: nothing of this may reach a network.
                "github_api_url": "http://127.0.0.1:9",
                "github_url": "http://127.0.0.1:9",
                "port": self.port,
            }
        )

    def environment(self, name: str) -> dict[str, str]:
        given = dict(OURS[name]["environment"])
        assert given.pop("REDIS_URL") == "redis://redis:6379/0"
        return given | {
            "PATH": os.environ["PATH"],
            "ISSUEWRIGHT_HOME": str(self.home / "state"),
            "REDIS_URL": f"redis://127.0.0.1:{self.redis_port}/0",
        }

    def command(self, name: str) -> list[str]:
        words = [str(self.settings) if word == SETTINGS_FILE else word for word in OURS[name]["command"]]
        return [*COMMAND, *words]

    def redis_command(self) -> list[str]:
        program, *options = COMPOSE["services"]["redis"]["command"]
        assert program in {"valkey-server", "redis-server"}
        return [str(find_server()), *options, "--bind", "127.0.0.1", "--port", str(self.redis_port)]

    def health_command(self) -> list[str]:
        kind, program, *words = OURS["web"]["healthcheck"]["test"]
        assert (kind, program) == ("CMD", "python")
        return [COMMAND[0], *(word.replace(":8000/", f":{self.port}/") for word in words)]

    @contextmanager
    def running(self, command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        with (self.home / "log").open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, cwd=self.home, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def log(self) -> str:
        return (self.home / "log").read_text()


@pytest.fixture
def containers() -> Iterator[Containers]:
    with TemporaryDirectory(prefix="iw-") as name:
        yield Containers(Path(name))


def is_well(command: list[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True, timeout=30).returncode == 0


def test_what_the_containers_run_migrates_serves_works_and_stops_when_asked(containers: Containers) -> None:
    migrate = subprocess.run(
        containers.command("migrate"), env=containers.environment("migrate"), cwd=containers.home,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (migrate.returncode, migrate.stderr) == (0, "")
    assert migrate.stdout.startswith("applied ")
    with ExitStack() as stack:
        stack.enter_context(containers.running(containers.redis_command(), {"PATH": os.environ["PATH"]}))
        web, worker = (
            stack.enter_context(containers.running(containers.command(name), containers.environment(name)))
            for name in ("web", "worker")
        )
        until(lambda: is_well(containers.health_command()), "web is not well", within_s=60)
        until(lambda: "worker.started" in containers.log(), "no worker", within_s=60)
        assert '"redis": true' in containers.log()
        for process in (worker, web):
            assert process.poll() is None, containers.log()
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=45) == 0, containers.log()
        assert not is_well(containers.health_command())
