"""From the label to the merge, as people see it on GitHub."""

from __future__ import annotations

import pytest

from tests.flow.repository import Repository
from tests.flow.world import World

TEMPLATE = "## What\r\n\r\n- [ ] I have read the rules\r\n"


@pytest.fixture
def kit(world: World) -> Repository:
    return world.repository({"README.md": "# Kit\n", ".github/pull_request_template.md": TEMPLATE})


def test_labeled_issue_becomes_a_ready_pull_request_and_a_merge_completes_it(kit: Repository) -> None:
    number = kit.run("binomial", title="Add C(n, k): binomial coefficients!")
    pull = kit.pull()
    branch = f"feature/{number}-add-c-n-k-binomial-coefficients"
    assert (pull["head"]["ref"], pull["base"]["ref"], pull["draft"], pull["state"]) == (
        branch,
        "main",
        False,
        "open",
    )
    assert kit.branches() == {"main", branch}

    # The start commit is empty and was made through the API; nothing was ever forced.
    commits = (
        kit.git("rev-list", "--reverse", f"{pull['base']['sha']}..{pull['head']['sha']}").decode().split()
    )
    start, head = commits[0], commits[-1]
    assert kit.git("diff", "--name-only", f"{start}^", start) == b""
    assert sum(entry["path"].endswith("/git/commits") for entry in kit.writes()) == 1
    assert sum(entry["kind"] == "git" for entry in kit.writes()) == 1
    assert kit.checks() == {start: "neutral", head: "success"}
    assert kit.check()["details_url"].startswith("http")
    assert kit.check()["actions"] == []

    author, message = kit.git("log", "-1", "--format=%an <%ae>%n%B", head).decode().split("\n", 1)
    assert author.startswith("issuewright[bot] <")
    assert author.endswith("+issuewright[bot]@users.noreply.github.com>")
    assert "Co-authored-by: alice <" in message

    body = pull["body"]
    assert "126410606437752" in body
    assert "- [x] " in body
    assert f"Closes #{number}" in body
    assert "I have read the rules" in body
    assert [user["login"] for user in pull["requested_reviewers"]] == ["alice"]
    assert kit.changed() == ["binomial.py", "tests/test_binomial.py"]

    status = kit.status(number)
    assert "Done: ready for review" in status
    assert f"#{pull['number']}" in status
    assert "- [ ]" not in status
    assert len(kit.comments(number)) == 1

    assert_sandbox_waited_and_went(kit)
    # Another label beside ours starts nothing, and nothing more is said.
    before = len(kit.writes())
    kit.world.github.add_labels(kit.name, number, "carol", "help wanted")
    kit.poke()
    assert len(kit.writes()) == before
    assert len(kit.pulls()) == 1

    kit.world.github.merge_pull(kit.name, pull["number"], "alice")
    kit.rest()
    assert "Merged" in kit.status(number)
    assert kit.issue(number)["state"] == "closed"
    assert kit.checks() == {start: "neutral", head: "success"}


def assert_sandbox_waited_and_went(kit: Repository) -> None:
    app = kit.world.app
    found = [one for one in app.get("/api/v1/sandboxes").json()["items"] if one["repository"] == kit.name]
    assert [one["state"] for one in found] == ["COMPLETED"]
    events = app.get(f"/api/v1/sandboxes/{found[0]['id']}/events", params={"limit": 200}).json()["items"]
    kinds = [event["event_type"] for event in events]
    assert kinds.index("agent.waiting") > kinds.index("agent.started")
    assert kinds[-1] == "agent.shutdown"
    assert not list(kit.world.home.rglob(f"*{found[0]['id']}*/work"))
    assert "ended" in kit.status(1)


def test_labels_and_branches_of_the_repository_decide_kind_base_and_template(world: World) -> None:
    """Two repositories at once: the rules of branches, the places of templates, and how pull requests end."""
    readme = {"README.md": "# Kit\n"}
    folder = {
        ".github/PULL_REQUEST_TEMPLATE/bug_fix.md": "## Bug fix\n",
        ".github/PULL_REQUEST_TEMPLATE/feature.md": "## New feature\n",
    }
    bug = world.repository(readme | folder, branches=["develop"])
    hotfix = world.repository(
        readme | folder | {"docs/pull_request_template.md": "## Docs default\n"}, branches=["develop"]
    )
    numbers = [
        bug.start(labels=["bug"], title="Typo in README"),
        hotfix.start(labels=["HotFix"], title="Typo in README"),
    ]
    for repository, number, kind, base in zip(
        (bug, hotfix), numbers, ("bugfix", "hotfix"), ("develop", "main"), strict=True
    ):  # fmt: skip
        repository.rest()
        pull = repository.pull()
        assert (pull["head"]["ref"], pull["base"]["ref"]) == (f"{kind}/{number}-typo-in-readme", base)
        assert not pull["draft"]
        assert f"Closes #{number}" in pull["body"]
        assert set(repository.checks().values()) == {"neutral", "success"}
    assert "Bug fix" not in bug.pull()["body"]
    assert "New feature" not in bug.pull()["body"]
    assert "## Docs default" in hotfix.pull()["body"]

    # GitHub closes issues on a merge into the default branch only; here the App does.
    world.github.merge_pull(bug.name, bug.pull()["number"], "alice")
    world.github.close_pull(hotfix.name, hotfix.pull()["number"], "alice")
    bug.rest()
    hotfix.rest()
    assert bug.issue(numbers[0])["state"] == "closed"
    assert "Merged" in bug.status(numbers[0])
    assert hotfix.issue(numbers[1])["state"] == "open"
    assert "Cancelled" in hotfix.status(numbers[1])
    assert "closed without a merge" in hotfix.status(numbers[1])
    assert hotfix.check()["conclusion"] == "success", "a head that ended in success keeps it"
    for repository in (bug, hotfix):
        before = len(repository.writes())
        repository.poke()
        assert len(repository.writes()) == before
