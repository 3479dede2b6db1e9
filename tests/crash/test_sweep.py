"""The worker is killed at every named point of a run; the run ends as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from app.domain.steps import StepName
from app.observability.crashpoints import WORKER_POINTS
from sandbox_payload.wire import LOADED
from tests.crash.faults import armed, restart, settle
from tests.crash.report import note
from tests.flow.repository import Repository
from tests.flow.test_reviews import answers, reviewed
from tests.flow.world import World

pytestmark = pytest.mark.crash

STEPS = ("admit", "branch", "pull", "provision", "collect", "publish", "review")
DONE = ("start_commit", "ref", "open_pull", "status", "check", "mirror", "sandbox", "push", "body", "ready", "review_request",
        "claim", "commit", "release", "intake")  # fmt: skip
"""With STEPS: what a run that delivers passes through. The others have runs of their own below."""

PLANNED = ("plan", "plan_comment", "questions", "show", "approve", "effect.reaction")
"""What only a planned run passes through (test_planning_killed.py)."""


RUNS_AT_MOST = 3

REVIEWED = ("effect.review_batch", "review_message", "effect.review_reaction", "effect.remark_reaction",
            "effect.thread_answer", "effect.review_again")  # fmt: skip
"""What only a run passes through whose result is reviewed."""


def points_of(names: Iterable[str], *when: str) -> list[str]:
    return [f"{name}.{one}" for name in names for one in when or ("before", "after")]


def note_all(request: pytest.FixtureRequest, points: Iterable[str], settled_s: float) -> None:
    for point in points:
        note(request, point, "worker killed", reached=1, settled_s=settled_s)


def assert_one_of_each(kit: Repository, number: int, *, merged_work: bool = True) -> None:
    pulls = kit.pulls()
    assert len(pulls) == 1
    assert len([text for text in kit.comments(number) if "part=status" in text]) == 1
    assert None not in kit.checks().values()  # fails by itself when a head has two
    if merged_work:
        assert kit.branches() == {"main", pulls[0]["head"]["ref"]}
        assert kit.changed() == ["README.md"]
        assert "Done" in kit.status(number)
        assert not pulls[0]["draft"]


@pytest.mark.parametrize(
    "points",
    [points_of(STEPS), points_of(DONE, "before"), points_of(DONE, "after")],
    ids=["steps", "before", "after"],
)
def test_worker_killed_at_points_of_a_delivering_run(
    world: World, points: list[str], request: pytest.FixtureRequest
) -> None:
    """Each acts once; the next one meets the process after it. A death inside a step may be after its last line that
    matters: the step is not run again then, and its own point never reached. Hence the steps have a run of their own.
    Something else may end a step there, too (GitHub's answer takes too long): what one run passes by is met in another.
    """
    left = set(points)
    for _ in range(RUNS_AT_MOST):
        restart(world, armed(sorted(left)))
        kit = world.repository()
        number = kit.start("edit_readme")
        settled_s = settle(world, kit)
        assert_one_of_each(kit, number)
        met = left & world.crashed()
        note_all(request, sorted(met), settled_s)
        left -= met
        if not left:
            break
    assert not left, "passed by in every run"


def test_worker_killed_while_it_watches_a_running_agent(world: World, request: pytest.FixtureRequest) -> None:
    points = ("watch.before", "watch.after")
    restart(world, armed(points))
    kit = world.repository({"README.md": "# Kit\n"})
    write = {"name": "Bash", "input": {"command": "echo more >> README.md"}}
    world.script("crash-watch", [{"tool_use": [write], "gate": "crash-watch"}, {"text": "Done."}])
    number = kit.start("crash-watch")
    world.wait(lambda: world.crashed() == set(points), "both deaths")
    world.open_gate("crash-watch")
    note_all(request, points, settle(world, kit))
    assert_one_of_each(kit, number)


def test_worker_killed_while_it_withdraws_a_run_without_changes(
    world: World, request: pytest.FixtureRequest
) -> None:
    points = ("conclude.before", "close.before", "close.after", "delete_branch.before", "delete_branch.after", "delete.before", "delete.after", "concluded.before",
              "conclude.after")  # fmt: skip
    restart(world, armed(points))
    kit = world.repository()
    number = kit.start("no_changes")
    settled_s = settle(world, kit)
    assert world.crashed() == set(points)
    assert_one_of_each(kit, number, merged_work=False)
    assert kit.branches() == {"main"}
    assert kit.pull()["state"] == "closed"
    assert "Nothing to change" in kit.status(number)
    note_all(request, points, settled_s)


def test_worker_killed_while_it_cancels(world: World, request: pytest.FixtureRequest) -> None:
    points = ("cancel.before", "cancel.after", "stop.before", "stop.after")
    restart(world, armed(points))
    kit = world.repository()
    world.script(
        "crash-cancel",
        [{"tool_use": [{"name": "Bash", "input": {"command": "true"}}], "gate": "crash-cancel"}],
    )
    number = kit.start("crash-cancel")
    kit.wait_gate("crash-cancel")
    kit.unlabel(number)
    settled_s = settle(world, kit)
    assert world.crashed() == set(points)
    assert_one_of_each(kit, number, merged_work=False)
    assert "Cancelled" in kit.status(number)
    note_all(request, points, settled_s)


def test_worker_killed_while_it_makes_labels_and_refuses_a_stranger(
    world: World, request: pytest.FixtureRequest
) -> None:
    points = ("effect.labels.before", "effect.labels.after", "effect.notice.before", "effect.notice.after")
    restart(world, armed(points))
    kit = world.new_repository()
    kit.install()
    world.wait(lambda: len(kit.labels_made()) == 4, "the labels")
    number = kit.start("edit_readme", label_by="bob")
    world.wait(lambda: kit.comments(number), "the notice")
    world.wait(lambda: world.crashed() == set(points), "each death")
    settled_s = settle(world, kit)
    assert len(kit.comments(number)) == 1
    assert kit.pulls() == []
    note_all(request, points, settled_s)


def test_worker_killed_while_it_renews_a_lease(world: World, request: pytest.FixtureRequest) -> None:
    points = ("lease.before", "lease.after")
    restart(world, armed(points), LEASE_S="3")
    kit = world.repository()
    world.github.add_fault(method="POST", path=f"{kit.name}/git/", delay_s=3, times=3)
    try:
        number = kit.start("edit_readme")
        settled_s = settle(world, kit)
    finally:
        world.github.clear_faults()
    assert world.crashed() == set(points)
    assert_one_of_each(kit, number)
    note_all(request, points, settled_s)


def test_worker_killed_while_it_closes_the_issue_of_a_merged_pull_request(
    world: World, request: pytest.FixtureRequest
) -> None:
    points = ("close_issue.before", "close_issue.after")
    restart(world, armed(points))
    kit = world.repository()
    world.github.create_branch(
        kit.name, "alice", "develop"
    )  # on a merge into the default branch GitHub closes it
    number = kit.run("edit_readme")
    world.github.merge_pull(kit.name, kit.pull()["number"], "alice")
    world.wait(lambda: kit.issue(number)["state"] == "closed", "the end of the issue")
    world.wait(lambda: world.crashed() == set(points), "both deaths")
    settled_s = settle(world, kit)
    assert kit.pull()["merged"]
    assert_one_of_each(kit, number, merged_work=False)
    note_all(request, points, settled_s)


def test_worker_killed_while_it_takes_up_what_was_said_about_finished_work(
    world: World, request: pytest.FixtureRequest
) -> None:
    points = ("follow.before", "follow.after")
    restart(world, armed(points))
    kit = world.repository()
    write = {"name": "Bash", "input": {"command": "echo more >> README.md"}}
    turn = [{"tool_use": [write]}, {"text": "Done."}]
    world.script("crash-follow", turn, turn)
    number = kit.run("crash-follow")
    first = kit.pull()["head"]["sha"]
    world.github.comment(kit.name, number, "carol", "And once more, please.")
    world.wait(lambda: world.crashed() == set(points), "both deaths")
    settled_s = settle(world, kit)
    assert_one_of_each(kit, number)
    assert kit.pull()["head"]["sha"] != first
    note_all(request, points, settled_s)


def test_worker_killed_while_it_pauses_and_resumes(world: World, request: pytest.FixtureRequest) -> None:
    points = ("pause.before", "pause.after", "resume.before", "resume.after")
    restart(world, armed(points))
    kit = world.repository({"README.md": "# Kit\n"})
    write = {"name": "Bash", "input": {"command": "echo more >> README.md"}}
    turn = [{"tool_use": [write]}, {"text": "Done."}]
    world.script("crash-pause", [{"tool_use": [write], "gate": "crash-pause"}, {"text": "Done."}], turn)
    number = kit.start("crash-pause")
    kit.wait_gate("crash-pause")
    world.github.comment(kit.name, number, "carol", "/agent pause")
    world.wait(lambda: "Paused" in kit.status(number), "the pause")
    world.github.comment(kit.name, number, "carol", "/agent resume")
    world.open_gate("crash-pause")
    world.wait(lambda: world.crashed() == set(points), "every death")
    settled_s = settle(world, kit)
    assert_one_of_each(kit, number)
    note_all(request, points, settled_s)


def test_worker_killed_while_it_takes_up_and_answers_a_review(
    world: World, request: pytest.FixtureRequest
) -> None:
    points = points_of(REVIEWED)
    restart(world, armed(points))
    kit = world.repository()
    reviewed(kit, "crash-review")
    number = kit.pull()["number"]
    world.github.review(kit.name, number, "carol", "REQUEST_CHANGES", "And mention it in the title.")
    world.wait(lambda: world.crashed() == set(points), "every death", 200)
    settled_s = settle(world, kit)
    world.wait(lambda: len(answers(kit)) == 1, "the answer")
    messages = world.rows(
        "select 1 from message m join spec s on s.id = m.spec_id where s.repo_id = ?", kit.id
    )
    assert len(messages) == 2, "the single comment, and the review"
    note_all(request, points, settled_s)


@pytest.mark.needs_bubblewrap
@pytest.mark.parametrize("point", points_of(["spare"]))
def test_worker_killed_while_it_hands_a_spare_sandbox_over(
    world: World, point: str, request: pytest.FixtureRequest
) -> None:
    """Before: the sandbox has its name and its order, and its keeper goes with the worker. After: the keeper goes on."""
    restart(world, armed([point]))
    kit = world.repository()
    loaded = f".spare-*/state/{LOADED}"
    world.wait(lambda: list((world.home / "state" / "sandboxes").glob(loaded)), "a spare that has loaded")
    number = kit.start("edit_readme")
    world.wait(lambda: world.crashed() == {point}, "the death")
    settled_s = settle(world, kit)
    assert_one_of_each(kit, number)
    note_all(request, [point], settled_s)


def test_every_point_of_the_worker_has_a_run() -> None:
    elsewhere = {"pause", "resume", "watch", "conclude", "close", "delete_branch", "close_issue", "stop", "left", "delete", "concluded", "cancel",
                 "effect.labels", "effect.notice", "effect.sub_issue", "effect.sub_issue_end", "lease", "follow", "adopt", "archive",
                 "forget_events", "guardian", "verdict_claim", "verdict", "relay", "spare", *PLANNED, *REVIEWED}  # fmt: skip
    assert {point.rsplit(".", 1)[0] for point in WORKER_POINTS} == {*STEPS, *DONE, *elsewhere}
    assert set(StepName) <= {*STEPS, *elsewhere}
