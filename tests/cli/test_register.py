from __future__ import annotations

import json
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import yaml

from app.github.manifest import load_manifest
from simulators.github.control import Control
from simulators.github.server import running
from tests.cli.browser import agree, form, registering
from tests.cli.running import Issuewright, until

NO_APP: dict[str, str | None] = {
    "GITHUB_APP_ID": None,
    "GITHUB_APP_PRIVATE_KEY": None,
    "GITHUB_WEBHOOK_SECRET": None,
}


@pytest.fixture
def github(home: Path) -> Iterator[Control]:
    (home / "github").mkdir()
    with running(home / "github") as (_, control):
        control.create_user("alice")
        control.create_org("acme", ["alice"])
        yield control


@pytest.fixture
def newcomer(issuewright: Issuewright, github: Control) -> Issuewright:
    """Nothing set but where GitHub is."""
    for name in NO_APP:
        del issuewright.settings[name]
    issuewright.settings |= {"GITHUB_URL": github.url, "GITHUB_API_URL": f"{github.url}/api/v3"}
    return issuewright


def stored(issuewright: Issuewright) -> dict[str, object]:
    values = yaml.safe_load((issuewright.home / "github-app.yaml").read_text())
    assert isinstance(values, dict)
    return values


def test_registered_in_the_browser_the_app_is_stored_and_used(newcomer: Issuewright, github: Control) -> None:
    with registering(newcomer, "--json") as command:
        shown = agree(command.page)
        assert shown.status_code == 200
        assert "is registered" in shown.text
        assert command.end() == 0
    made = json.loads(command.out)
    (app,) = github.state()["apps"]
    assert (made["app_id"], made["slug"]) == (app["id"], "issuewright")
    assert made["install_url"] == f"{github.url}/apps/issuewright/installations/new"
    assert app["owner"]["login"] == "alice"
    manifest = load_manifest()
    assert app["permissions"] == manifest["default_permissions"]
    assert app["events"] == manifest["default_events"]
    kept = newcomer.home / "github-app.yaml"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stored(newcomer)["github_app_id"] == app["id"]
    secret = str(stored(newcomer)["github_webhook_secret"])
    assert secret not in command.out + command.err + shown.text
    # What was stored is what the other commands use: they get as far as the database now.
    assert "issuewright migrate" in newcomer.run("web").err
    assert sorted(one.name for one in newcomer.home.glob(".github-app-*")) == []


@pytest.mark.parametrize(
    ("file", "line"), [(".env", "ISSUEWRIGHT_HOME={}"), ("issuewright.yaml", "issuewright_home: {}")]
)
def test_app_is_used_wherever_the_home_was_said(
    newcomer: Issuewright, github: Control, file: str, line: str
) -> None:
    (newcomer.home / file).write_text(line.format(newcomer.home / "state") + "\n")
    del newcomer.settings["ISSUEWRIGHT_HOME"]
    with registering(newcomer) as command:
        agree(command.page)
        assert command.end() == 0, command.err
    assert (newcomer.home / "state" / "github-app.yaml").is_file()
    assert "issuewright migrate" in newcomer.run("web").err


def test_for_an_organization_the_app_is_the_organizations(newcomer: Issuewright, github: Control) -> None:
    with registering(newcomer, "--org", "acme", "--name", "Acme helper") as command:
        agree(command.page)
        assert command.end() == 0
    (app,) = github.state()["apps"]
    assert (app["owner"]["login"], app["name"]) == ("acme", "Acme helper")
    assert f"{github.url}/apps/acme-helper/installations/new" in command.out
    assert "issuewright doctor" in command.out


def test_a_second_app_is_refused_before_anything_is_made(newcomer: Issuewright, github: Control) -> None:
    with registering(newcomer) as command:
        agree(command.page)
        assert command.end() == 0
    before = stored(newcomer)
    again = newcomer.run_cold("register")
    assert again.code == 2
    assert again.cpu_s < 2
    assert "--force" in again.err
    assert f"issuewright (id {before['github_app_id']})" in again.err
    assert len(again.err.splitlines()) == 1
    with registering(newcomer, "--force", "--name", "Second") as command:
        agree(command.page)
        assert command.end() == 0
    assert stored(newcomer)["github_app_slug"] == "second"
    (backup,) = newcomer.home.glob("github-app-replaced-*.yaml")
    assert yaml.safe_load(backup.read_text()) == before
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert str(backup) in command.out


def test_two_at_once_lose_no_key(newcomer: Issuewright, github: Control) -> None:
    with registering(newcomer) as first:
        page = first.page
        with registering(newcomer, "--name", "Other") as second:
            agree(second.page)
            assert second.end() == 0
        late = agree(page)
        assert late.status_code == 502
        assert first.end() == 1
    assert stored(newcomer)["github_app_slug"] == "other"
    kept = [yaml.safe_load(path.read_text()) for path in newcomer.home.glob("github-app-[0-9]*.yaml")]
    assert [one["github_app_slug"] for one in kept] == ["issuewright"]


def test_an_answer_with_another_state_or_none_changes_nothing(newcomer: Issuewright, github: Control) -> None:
    with registering(newcomer) as command:
        base = command.page.rsplit("/", 1)[0]
        with httpx.Client(base_url=base, trust_env=False) as stranger:
            assert stranger.get("/").status_code == 404
            for query in ("", "?code=abc", "?code=abc&state=", "?code=abc&state=guessed"):
                answer = stranger.get(f"/callback{query}")
                assert answer.status_code == 400
        agree(command.page)
        assert command.end() == 0


def test_a_code_counts_once_and_a_reload_shows_the_same(newcomer: Issuewright, github: Control) -> None:
    with registering(newcomer) as command, httpx.Client(trust_env=False, timeout=20) as browser:
        action, manifest = form(browser.get(command.page).text)
        back = browser.post(action, data={"manifest": manifest}).headers["location"]
        # Used by somebody else first: GitHub answers 404, and the command says what to do.
        code = parse_qs(urlsplit(back).query)["code"][0]
        taken = browser.post(f"{github.url}/api/v3/app-manifests/{code}/conversions")
        assert taken.status_code == 201
        assert browser.get(back).status_code == 502
        assert command.end() == 1
    assert "used already" in command.err
    assert not (newcomer.home / "github-app.yaml").exists()


def test_github_failing_for_a_moment_is_asked_again(newcomer: Issuewright, github: Control) -> None:
    github.add_fault(method="POST", path=".*/conversions", status=502, times=1)
    with registering(newcomer) as command:
        assert agree(command.page).status_code == 200
        assert command.end() == 0


def test_nobody_coming_ends_it_with_one_line(newcomer: Issuewright, github: Control) -> None:
    answer = newcomer.run("register", "--timeout", "1")
    assert answer.code == 1
    assert (
        answer.err.splitlines()[-1]
        == "issuewright: nobody registered the App within 1 s; run the command again"
    )


def test_ctrl_c_ends_it_without_a_trace(newcomer: Issuewright, github: Control) -> None:
    with registering(newcomer) as command:
        assert command.page
        command.process.send_signal(signal.SIGINT)
        assert command.end() == 1
    assert "stopped: no App was registered" in command.err
    assert "Traceback" not in command.err
    assert not (newcomer.home / "github-app.yaml").exists()


def test_settings_elsewhere_that_win_are_named(newcomer: Issuewright, github: Control) -> None:
    with registering(newcomer, GITHUB_APP_ID="777") as command:
        agree(command.page)
        assert command.end() == 0
    assert "GITHUB_APP_ID is set elsewhere" in command.err


def test_a_key_that_can_not_be_stored_says_where_to_delete_the_app(
    newcomer: Issuewright, github: Control
) -> None:
    state = newcomer.home / "state"
    with registering(newcomer, ISSUEWRIGHT_HOME=str(state)) as command:
        page = command.page
        state.rename(newcomer.home / "elsewhere")
        assert agree(page).status_code == 502
        assert command.end() == 1
    assert f"delete the App at {github.url}/apps/issuewright" in command.err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"PUBLIC_URL": None}, "PUBLIC_URL: not set"),
        ({"PUBLIC_URL": "http://issuewright.example"}, "not https://"),
        ({"PUBLIC_URL": "https://127.0.0.1"}, "this machine only"),
        ({"PUBLIC_URL": "https://localhost:8000"}, "this machine only"),
        ({"PUBLIC_URL": "https://x.example", "GITHUB_API_URL": None}, "GITHUB_API_URL: not set"),
        ({"PUBLIC_URL": "https://x.example", "ISSUEWRIGHT_HOME": "/proc/none"}, "ISSUEWRIGHT_HOME:"),
    ],
)
def test_what_github_could_not_reach_is_refused_at_once(
    issuewright: Issuewright, changes: dict[str, str | None], words: str
) -> None:
    enterprise: dict[str, str | None] = {
        "GITHUB_URL": "https://github.acme.example",
        "GITHUB_API_URL": "https://github.acme.example/api/v3",
    }
    answer = issuewright.run("register", **(enterprise | changes))
    assert answer.code == 2
    assert words in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [["--org", "a/b"], ["--org", ""], ["--name", "x" * 35], ["--port", "99999"]]
)
def test_nonsense_is_refused_as_usage(newcomer: Issuewright, arguments: list[str]) -> None:
    answer = newcomer.run("register", *arguments)
    assert answer.code == 2
    assert "Error:" in answer.err


def test_a_port_in_use_is_one_line(newcomer: Issuewright) -> None:
    port = urlsplit(newcomer.settings["GITHUB_URL"]).port
    answer = newcomer.run("register", "--port", str(port))
    assert answer.code == 2
    assert f"--port {port}" in answer.err
    assert len(answer.err.splitlines()) == 1


def test_the_page_names_what_will_happen(newcomer: Issuewright, github: Control) -> None:
    with registering(newcomer, PUBLIC_URL="https://issuewright.example") as command:
        text = httpx.get(command.page, trust_env=False).text
        until(lambda: "ssh -L" in command.err, "no hint for another machine")
    assert "https://issuewright.example/webhooks/github" in text
    _, manifest = form(text)
    assert json.loads(manifest)["public"] is False
