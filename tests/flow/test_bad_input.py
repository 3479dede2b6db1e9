"""Odd issues, repositories, people and deliveries: each ends in something a person can read, or in silence."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid

from tests.flow.repository import LABEL, Repository
from tests.flow.world import World


def assert_untouched(kit: Repository, number: int) -> None:
    """No comment, branch, pull request or check."""
    assert kit.comments(number) == []
    assert kit.writes() == []
    assert kit.branches() == {"main"}


def test_odd_texts_and_taken_names_are_worked_on_all_the_same(world: World) -> None:
    """And with pull-request templates in other places: upper case with CRLF, and one larger than a body may be."""
    emoji = world.repository(
        {"README.md": "# Kit\n", "PULL_REQUEST_TEMPLATE.TXT": "Upper case\r\nand CRLF\r\n"}
    )
    long = world.repository(
        {"README.md": "# Kit\n", ".github/pull_request_template.md": "Long words. " * 5900}
    )
    long_text = "scenario: edit_readme\n" + "wörter & <tags> @alice #1 ``` " * 2200
    world.github.create_branch(emoji.name, "alice", "hotfix/1-issue")
    emoji_number = emoji.start(title="🚀✨ 你好", body="", labels=["critical", "bug"])
    title = "A rather long title that does not fit into a branch name " * 4
    long_number = long.start(title=title, body=long_text[:65_000])
    emoji.rest()
    assert emoji.pull()["head"]["ref"] == f"hotfix/{emoji_number}-issue-2"
    assert "binomial.py" in emoji.changed()
    assert "Done" in emoji.status(emoji_number)
    long.rest()
    branch = long.pull()["head"]["ref"]
    assert branch.isascii()
    assert len(branch) <= 60
    assert "Done" in long.status(long_number)
    assert len(long.status(long_number)) <= 65_536
    assert len(long.pull()["title"]) <= 256
    assert long.changed() == ["README.md"]
    assert "Upper case\nand CRLF" in emoji.pull()["body"]
    assert "Long words. Long words." in long.pull()["body"]
    assert f"Closes #{long_number}" in long.pull()["body"]
    assert len(long.pull()["body"]) <= 65_536


def test_branch_called_like_the_prefix_is_named_and_left_alone(world: World) -> None:
    kit = world.repository()
    world.github.create_branch(kit.name, "alice", "feature")
    number = kit.run("no_changes")
    status = kit.status(number)
    assert "Failed" in status
    assert "`feature`" in status
    assert kit.branches() == {"main", "feature"}
    assert kit.pulls() == []
    tried = [
        one for one in world.github.requests(method="POST") if one["path"].endswith(f"{kit.name}/git/refs")
    ]
    assert 1 <= len(tried) <= 3
    world.github.delete_branch(kit.name, "alice", "feature")
    kit.unlabel(number)
    world.github.advance_clock(
        1
    )  # GitHub's times count whole seconds: within one, this would be the same event again
    kit.label(number)
    kit.rest()
    assert kit.pull()["state"] == "closed"
    assert any("Nothing to change" in text for text in kit.comments(number))


def test_repository_without_a_commit_is_told_to_get_one(world: World) -> None:
    kit = world.repository(empty=True)
    number = kit.run()
    assert "no commit yet" in kit.status(number)
    assert kit.pulls() == []
    assert len(kit.writes()) <= 2


def test_label_by_someone_without_write_access_gets_one_answer(world: World) -> None:
    kit = world.repository()
    number = kit.start(label_by="bob")
    kit.rest()
    kit.unlabel(number, "bob")
    kit.label(number, "bob")
    kit.rest()
    comments = kit.comments(number)
    assert len(comments) == 1
    assert "Not started" in comments[0]
    assert "write access" in comments[0]
    assert len(kit.writes()) == 1
    assert kit.branches() == {"main"}


def test_labels_that_ask_for_nothing_write_nothing(world: World) -> None:
    """An unrelated label, the approval label, a label on a pull request, and one that is gone again at once."""
    kit = world.repository()
    number = kit.open_issue()
    world.github.add_labels(kit.name, number, "alice", "bug", "agent:approved", "agent:quicker")
    world.github.push(kit.name, "alice", "topic", {"a.txt": "a\n"})
    pull = world.github.open_pull(kit.name, "alice", "A pull request", "topic")
    kit.label(int(pull["number"]))
    kit.rest()
    world.github.hold_webhooks()
    kit.label(number)
    kit.unlabel(number)
    world.github.release_webhooks(shuffle=True, seed=3)
    kit.rest()
    assert kit.comments(number) == []
    assert kit.writes() == []


def test_repository_archived_meanwhile_is_left_alone(world: World) -> None:
    kit = world.repository()
    number = kit.open_issue()
    world.github.hold_webhooks()
    kit.label(number)
    world.github.archive_repo(kit.name, "alice")
    world.github.release_webhooks()
    kit.rest()
    assert_untouched(kit, number)


def test_opened_with_the_label_starts_once_in_whatever_order_it_is_told(world: World) -> None:
    """And with every delivery doubled, shuffled, and some forged ones in between."""
    kit = world.repository()
    world.github.hold_webhooks()
    number = kit.open_issue("edit_readme", labels=[LABEL])
    held = [one for one in world.github.deliveries("issues") if one["state"] == "held"]
    assert [one["action"] for one in held] == ["opened", "labeled"]
    for one in reversed(held):
        world.github.redeliver(one["id"])
    world.github.release_webhooks(shuffle=True, seed=1)
    world.github.duplicate_webhooks()
    forge(world)
    kit.rest()
    assert not kit.pull()["draft"]
    assert len(kit.comments(number)) == 1
    assert kit.changed() == ["README.md"]
    assert sum(one["kind"] == "git" for one in kit.writes()) == 1
    assert set(kit.checks().values()) == {"neutral", "success"}
    for event in ("issues", "check_run", "pull_request"):
        for one in reversed(
            [one for one in world.github.deliveries(event) if one["repository_id"] == kit.id]
        ):
            world.github.redeliver(one["id"])
    before = len(kit.writes())
    kit.poke()
    world.github.release_webhooks()
    assert len(kit.writes()) == before


def forge(world: World) -> None:
    """Deliveries that did not come from GitHub: told off, and nothing comes of them."""
    payload = world.github.deliveries("issues", "labeled")[-1]["payload"]
    payload["issue"]["number"] = 999
    body = json.dumps(payload).encode()
    signature = "sha256=" + hmac.new(b"guessed", body, hashlib.sha256).hexdigest()
    headers = {
        "X-GitHub-Event": "issues",
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "Content-Type": "application/json",
    }
    for extra in ({}, {"X-Hub-Signature-256": signature}, {"X-Hub-Signature": "sha1=" + "0" * 40}):
        assert world.app.post("/webhooks/github", content=body, headers=headers | extra).status_code == 401


def test_labels_are_made_on_installation_where_they_are_missing(world: World) -> None:
    """Three repositories, the second archived and the third with a label in another case; a fourth comes later."""
    first = world.new_repository()
    owner = first.name.split("/")[0]
    kits = {"kit": first} | {name: world.add_repository(owner, name) for name in ("old", "case")}
    world.github.archive_repo(kits["old"].name, "alice")
    world.github.create_label(kits["case"].name, "alice", "Agent:Quick")
    installed = world.github.install(
        int(world.github_app["id"]), owner, [kit.name for kit in kits.values()], "alice"
    )
    for kit in kits.values():
        kit.rest()
    later = world.add_repository(owner, "later")
    world.github.add_to_installation(int(installed["id"]), "alice", [later.name])
    later.rest()
    every = ["agent", "agent:approved", "agent:plan", "agent:quick"]
    assert first.labels_made() == every
    assert later.labels_made() == every
    assert kits["old"].labels_made() == []
    assert kits["case"].labels_made() == ["agent", "agent:approved", "agent:plan"]
    number = kits["case"].open_issue("long")
    kits["case"].label(number, label="Agent:Quick")
    kits["case"].wait_status(number, "Accepted")
    kits["case"].unlabel(number, label="Agent:Quick")
    kits["case"].rest()
    assert "Cancelled" in kits["case"].status(number)
