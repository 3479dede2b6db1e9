"""People, GitHub and the network get in the way while the agent works."""

from __future__ import annotations

from typing import Any

from tests.flow.repository import Repository
from tests.flow.world import World


def bash(command: str, gate: str | None = None) -> dict[str, Any]:
    return {"tool_use": [{"name": "Bash", "input": {"command": command}}], "gate": gate}


def held_script(world: World, name: str) -> None:
    """Writes before.txt, then waits at the gate of the same name, then writes after.txt."""
    steps = [
        bash("echo before > before.txt"),
        bash("echo after > after.txt", gate=name),
        {"text": "Both are there."},
    ]
    world.script(name, steps)


def start_held(
    world: World, name: str, files: dict[str, str] | None = None, **issue: Any
) -> tuple[Repository, int]:
    kit = world.repository(files)
    held_script(world, name)
    return kit, kit.start(name, **issue)


def test_label_off_issue_closed_or_app_removed_ends_the_run(world: World) -> None:
    unlabeled, one = start_held(world, "unlabeled")
    closed, two = start_held(world, "closed")
    removed, three = start_held(world, "removed")
    for name in ("unlabeled", "closed", "removed"):
        unlabeled.wait_gate(name)
    unlabeled.unlabel(one, "bob")
    world.github.close_issue(closed.name, two, "carol")
    before = len(removed.writes())
    world.github.uninstall(removed.installation_id, "alice")
    for kit, number, reason in ((unlabeled, one, "label was removed"), (closed, two, "issue was closed")):
        kit.rest()
        status = kit.status(number)
        assert "Cancelled" in status
        assert reason in status
        assert kit.pull()["draft"]
        assert kit.pull()["state"] == "open"
        assert kit.check()["conclusion"] == "cancelled"
        assert kit.changed() in ([], ["before.txt"])
        assert len(kit.branches()) == 2
    removed.rest()
    assert len(removed.writes()) == before
    assert removed.check()["conclusion"] is None, "nothing can be written there any more"
    count = [len(kit.writes()) for kit in (unlabeled, closed)]
    for kit in (unlabeled, closed):
        kit.poke()
    assert [len(kit.writes()) for kit in (unlabeled, closed)] == count
    assert three == 1

    # Set again: a new run with a branch and a pull request of its own; the old ones stay.
    world.open_gate("unlabeled")
    unlabeled.label(one, "dave")
    unlabeled.rest()
    assert len([text for text in unlabeled.comments(one) if "part=status" in text]) == 2
    assert [pull["draft"] for pull in unlabeled.pulls()] == [True, False]
    assert unlabeled.changed(unlabeled.pulls()[1]) == ["after.txt", "before.txt"]
    assert len(unlabeled.branches()) == 3


def test_words_of_people_in_the_pull_request_stay_and_a_lost_reviewer_is_no_failure(world: World) -> None:
    template = "## Checklist\n\n- [ ] Docs\n- [ ] Tests\n"
    kit, number = start_held(
        world, "edited", {"README.md": "# Kit\n", "docs/pull_request_template.md": template}, label_by="dave"
    )
    kit.wait_gate("edited")
    pull = kit.pull()
    edited = (
        pull["body"].replace("- [ ] Docs", "- [x] Docs") + "\n\nScreenshot: ![x](https://example.org/x.png)"
    )
    world.github.edit_issue(kit.name, pull["number"], "carol", title="A better title", body=edited)
    world.github.set_collaborator(kit.name, "dave", "none")
    world.open_gate("edited")
    kit.rest()
    pull = kit.pull()
    assert pull["title"] == "A better title"
    for words in (
        "- [x] Docs",
        "- [ ] Tests",
        "Screenshot: ![x](https://example.org/x.png)",
        f"Closes #{number}",
    ):
        assert words in pull["body"]
    assert "Both are there." in pull["body"]
    assert "Work in progress" not in pull["body"]
    assert not pull["draft"]
    assert kit.check()["conclusion"] == "success"
    assert pull["requested_reviewers"] == []
    assert "dave could not be requested" in kit.status(number)
    asked = [
        one for one in world.github.requests(method="POST") if one["path"].endswith("/requested_reviewers")
    ]
    assert len([one for one in asked if kit.name in one["path"]]) <= 2


def test_every_write_is_done_but_its_answer_lost_once_and_nothing_is_doubled(world: World) -> None:
    """Two repositories share the losses, since each costs a pause."""
    kits = [world.repository(), world.repository()]
    losses = [
        [("POST", "/git/commits$"), ("POST", "/pulls$"), ("PATCH", "/comments/"), ("PATCH", "/check-runs/"),
         ("POST", "git-receive-pack$")],
        [("POST", "/git/refs$"), ("POST", "/check-runs$"), ("POST", "/comments$"), ("PATCH", "/pulls/"),
         ("POST", "/requested_reviewers$")],
    ]  # fmt: skip
    for kit, lost in zip(kits, losses, strict=True):
        for method, path in lost:
            world.github.add_fault(method=method, path=f"{kit.name}.*{path}", apply=True, status=502, times=1)
    world.github.add_fault(method="POST", path="graphql$", apply=True, status=502, times=1)
    numbers = [kit.start("edit_readme") for kit in kits]
    for kit in kits:
        kit.rest()
    hits = {rule["path"]: rule["hits"] for rule in world.github.list_faults()}
    world.github.clear_faults()
    assert [path for path, count in hits.items() if count == 0] == []
    for kit, number in zip(kits, numbers, strict=True):
        pull = kit.pull()
        assert not pull["draft"]
        assert kit.branches() == {"main", pull["head"]["ref"]}
        assert kit.changed() == ["README.md"]
        assert len(kit.comments(number)) == 1
        assert "Done" in kit.status(number)
        assert sorted(map(str, kit.checks().values())) == ["neutral", "success"]
        assert [user["login"] for user in pull["requested_reviewers"]] == ["alice"]
        commits = kit.git("rev-list", "--count", f"{pull['base']['sha']}..{pull['head']['sha']}")
        assert commits.strip() == b"2"
