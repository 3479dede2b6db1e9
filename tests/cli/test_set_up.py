"""The README's own steps, from nothing to a pull request, against a simulated GitHub."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.cli.demo.github import BODY, TITLE
from simulators.github.control import Control
from simulators.github.server import running
from tests.cli.browser import agree, registering
from tests.cli.running import Issuewright, until
from tests.docs.markdown import ROOT

README = (ROOT / "README.md").read_text()
SECTION = README.split("## Run it for real", 1)[1].split("\n## ", 1)[0]
STEPS = re.findall(r"^\d+\. \*\*.*?(?=^\d+\. |\n\n|\Z)", SECTION, re.MULTILINE | re.DOTALL)
KEY = "the-key-of-this-test"


def commands() -> list[str]:
    """The first command of each step that has one."""
    found = [re.search(r"`issuewright (\w+)", step) for step in STEPS]
    return [one[1] for one in found if one]


def settings_file() -> str:
    (text,) = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
    return "".join(f"{line.strip()}\n" for line in text.splitlines())


@contextmanager
def model(directory: Path) -> Iterator[str]:
    ready = directory / "model.ready"
    arguments = ["--port", "0", "--ready-file", str(ready), "--api-key", KEY]
    process = subprocess.Popen([sys.executable, "-m", "simulators", "model", *arguments])
    try:
        until(ready.exists, "the simulated model did not start")
        found = re.search(r"http://[^\"]+", ready.read_text())
        assert found is not None
        yield found[0]
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def github(home: Path) -> Iterator[Control]:
    (home / "github").mkdir()
    with running(home / "github") as (_, control):
        control.create_user("alice")
        control.create_org("acme", ["alice"])
        control.create_repo("acme", "mathkit", {"README.md": "# Mathkit\n", "tests/__init__.py": ""})
        yield control


def asked_for_review(github: Control) -> list[str]:
    return [one["login"] for one in (pull(github) or {"requested_reviewers": []})["requested_reviewers"]]


def pull(github: Control) -> dict[str, Any] | None:
    return next(iter(github.pulls("acme/mathkit")), None)


@pytest.mark.needs_bubblewrap
def test_following_the_readme_leads_from_nothing_to_a_pull_request(
    issuewright: Issuewright, github: Control
) -> None:
    home, port = issuewright.home, issuewright.port
    assert commands() == ["register", "up", "doctor"]
    with model(home) as model_url:
        # Nothing but what the README names, and where the stand-ins are instead of github.com and the model.
        issuewright.settings = {"ISSUEWRIGHT_HOME": str(home / "state"), "LOG_FORMAT": "json"}
        text = (
            settings_file().replace("https://YOUR-HOST", f"http://127.0.0.1:{port}").replace("THE-KEY", KEY)
        )
        assert KEY in text
        stand_ins = {
            "github_url": github.url,
            "github_api_url": f"{github.url}/api/v3",
            "anthropic_base_url": model_url,
            "port": port,
        }
        config = home / "issuewright.yaml"
        config.write_text(text + "".join(f"{name}: {value}\n" for name, value in stand_ins.items()))
        config.chmod(0o600)

        with registering(issuewright, "--org", "acme") as command:
            agree(command.page)
            assert command.end() == 0, command.err
        assert "issuewright doctor" in command.out
        with issuewright.up() as product:
            (app,) = github.state()["apps"]
            github.install(app["id"], "acme", by="alice")
            until(lambda: "agent:quick" in made_labels(github), "the labels were not made")
            examined = issuewright.run("doctor")
            assert examined.code == 0, examined.out + examined.err
            # MODEL is not set by the README: all else is right without a warning.
            assert [line for line in examined.out.splitlines() if not line.startswith("ok ")] == []

            github.open_issue("acme/mathkit", "alice", TITLE, BODY, labels=["agent:quick"])
            until(lambda: asked_for_review(github) == ["alice"], "no pull request is ready for review", 120)
            ready = pull(github)
            assert ready is not None
            assert not ready["draft"]
            assert "126410606437752" in ready["body"]
            # The agent waits for messages: it would outlive a product that is killed.
            assert product.stop(signal.SIGTERM) == 0
    secrets = (home / "state" / "github-app.yaml").read_text()
    key = re.search(r"MII[A-Za-z0-9+/]{20}", secrets)
    assert key is not None
    assert key[0] not in (home / "up.log").read_text() + examined.out + command.out + command.err


def made_labels(github: Control) -> set[str]:
    writes = [one for one in github.writes() if one["path"].endswith("/repos/acme/mathkit/labels")]
    return {str(one["body"]["name"]) for one in writes}
