"""Every end that is not a delivered result, told on GitHub in words."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.cli.running import COMMAND
from tests.flow.repository import Repository
from tests.flow.world import World


def assert_quiet(*repositories: Repository) -> None:
    """Nothing is written any more, whatever else happens there."""
    before = [len(one.writes()) for one in repositories]
    for one in repositories:
        one.poke()
    assert [len(one.writes()) for one in repositories] == before


def assert_failed(repository: Repository, number: int, conclusion: str = "failure") -> str:
    """The pull request stays a draft, the check on its head says so; the status comment's text."""
    pull = repository.pull()
    assert pull["draft"]
    assert pull["state"] == "open"
    assert repository.check()["conclusion"] == conclusion
    assert [action["identifier"] for action in repository.check()["actions"]] == ["retry"]
    assert repository.issue(number)["state"] == "open"
    return repository.status(number)


def download_bundle(repository: Repository, spec_id: str, target: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "specs", "bundle", spec_id, "-o", str(target)], env=repository.world.environment,
        cwd=target.parent, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    subprocess.run(["git", "bundle", "list-heads", str(target)], check=True, capture_output=True)


def _bash(command: str) -> dict[str, Any]:
    return {"tool_use": [{"name": "Bash", "input": {"command": command}}]}


def spec_of(status: str) -> str:
    return status.split("issuewright:spec=", 1)[1].split(maxsplit=1)[0]


def test_agent_changes_nothing_then_pull_request_and_branch_go_and_the_issue_stays(world: World) -> None:
    kit = world.repository()
    number = kit.run("no_changes")
    pull = kit.pull()
    assert (pull["state"], pull["merged"]) == ("closed", False)
    assert kit.branches() == {"main"}
    assert set(kit.checks().values()) == {"neutral"}
    assert "Nothing to change" in kit.status(number)
    assert kit.issue(number)["state"] == "open"
    assert_quiet(kit)


def test_refused_result_is_not_pushed_and_says_which_rule_it_broke(world: World, tmp_path: Path) -> None:
    files = {
        "README.md": "# Kit\n",
        "docs/CODEOWNERS": "docs/ @alice\n",
        "CODEOWNERS": "* @ghost-user\n",
        ".gitmodules": "\n",
        ".github/workflows/ci.yml": "on: push\n",
    }
    command = (
        "git mv .github/workflows/ci.yml ci.yml && rm docs/CODEOWNERS && echo '* @bob' > CODEOWNERS"
        " && chmod +x .gitmodules && echo note > notes.txt"
    )
    world.script("protected_ways", [_bash(command), {"text": "That is done."}])
    expected = {
        "protected_ways": [".github/workflows/ci.yml", "docs/CODEOWNERS", "`CODEOWNERS`", ".gitmodules"],
        "secret": ["config.ini"],
        "symlink": ["outside"],
    }
    repositories = {name: world.repository(files) for name in expected}
    numbers = {name: kit.start(name) for name, kit in repositories.items()}
    for name, paths in expected.items():
        kit = repositories[name]
        kit.rest()
        status = assert_failed(kit, numbers[name])
        assert "Not pushed" in status, name
        told = status.split("The change that was not pushed")[0]
        assert [path for path in paths if path not in told] == [], name
        assert "notes.txt" not in told, name
        assert (
            "\n\nProtected paths are changed: that needs a person.\n- `" in told or name != "protected_ways"
        )
        assert kit.changed() == [], name
        assert not any(entry["kind"] == "git" for entry in kit.writes()), name
    assert "vT8kQ2mZr5Xw1Nc7Yb4" not in str(repositories["secret"].now()), "where, not what"
    status = repositories["protected_ways"].status(numbers["protected_ways"])
    assert "specs bundle" in status
    download_bundle(repositories["protected_ways"], spec_of(status), tmp_path / "kept.bundle")
    assert_quiet(repositories["protected_ways"], repositories["secret"])


def test_model_ends_in_an_error_then_its_sentence_is_told_and_the_work_kept(world: World) -> None:
    credit, retired = world.repository(), world.repository()
    credit_number = credit.start("credit_exhausted")
    retired_number = retired.start("retired_model")
    credit.rest()
    status = assert_failed(credit, credit_number)
    assert "credit exhausted" in status
    assert "success" not in status.lower()
    assert credit.file("partial.txt") == b"half of the work\n"
    retired.rest()
    status = assert_failed(retired, retired_number)
    assert "model" in status
    assert retired.changed() == []
    asked = world.model.get("/_sim/requests", params={"scenario": "retired_model", "body": "0"}).json()[
        "requests"
    ]
    assert 1 <= len(asked) <= 10
    assert_quiet(credit, retired)


def test_retry_button_is_for_writers_and_goes_on_where_it_failed(world: World) -> None:
    kit = world.repository()
    turn = [
        _bash("echo half > partial.txt"), _bash("cat partial.txt"),
        _bash("cat partial.txt && echo rest > rest.txt"), {"text": "Now all of it is there."},
    ]  # fmt: skip
    fault = {"kind": "status", "status": 400, "message": "out of credit", "times": None}
    world.script("credit_ends", turn, faults=[{"fault": fault, "after_tool_results": 2}])
    number = kit.run("credit_ends")
    assert_failed(kit, number)
    check, before = kit.check(), len(kit.writes())
    world.github.press_button(check["id"], "bob", "retry")
    kit.rest()
    assert len(kit.writes()) == before
    world.script("credit_ends", turn)  # Credit is there again: the saved session goes on.
    world.github.press_button(check["id"], "carol", "retry")
    kit.wait_status(number, "Done: ready for review")
    kit.rest()
    assert kit.changed() == ["partial.txt", "rest.txt"]
    assert not kit.pull()["draft"]
    assert kit.check()["conclusion"] == "success"
    assert len(kit.comments(number)) == 1


def test_model_never_answers_then_the_time_limit_is_told(provider: str) -> None:
    with World.running(provider, TASK_TIMEOUT_S="6") as world:
        kit = world.repository()
        number = kit.run("hang")
        status = assert_failed(kit, number, "timed_out")
        assert "time limit" in status
        assert kit.file("before.txt") == b"before the silence\n"
