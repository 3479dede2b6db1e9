"""Every write applied and then answered 502, once each: asked again until done, everything exists once."""

from __future__ import annotations

from contextlib import suppress

from app.domain.errors import RetryAt
from app.domain.ids import IssueNumber
from app.domain.ports import CheckOutput
from tests.github.conftest import Stage

BRANCH = "feature/1-count"
MARKER = "<!-- issuewright:spec=spec_1 part=status -->"
LABELS = (("agent", "5319e7", "Plans and builds"), ("agent:quick", "1d76db", "Builds"))
DONE = CheckOutput("Done", "All well", "https://example.org/run", "success")


async def work(stage: Stage, issue: IssueNumber, comment_id: int, start: str) -> None:
    """What a run writes, from the first label to the end, without remembering anything."""
    gateway, repo = stage.gateway, stage.repo
    await gateway.ensure_labels(repo, LABELS)
    await gateway.ensure_reaction(repo, comment_id, "eyes")
    await gateway.ensure_comment(repo, issue, MARKER, f"Working\n{MARKER}", known_id=None)
    assert await gateway.ensure_branch(repo, BRANCH, start)
    pull = await gateway.ensure_pull(repo, head=BRANCH, base="main", title="Count", body="x")
    await gateway.ensure_check_run(repo, start, "spec_1", DONE, known_id=None)
    await gateway.ensure_pull_body(repo, pull.number, f"Closes #{issue}")
    await gateway.ensure_pull_ready(repo, pull)
    await gateway.ensure_review_requested(repo, pull.number, "carol")
    await gateway.ensure_issue_closed(repo, issue)


async def test_every_answer_lost_once_leaves_one_of_each(stage: Stage) -> None:
    issue = IssueNumber(int(stage.github.open_issue(stage.name, "alice", "Count")["number"]))
    asked = stage.github.comment(stage.name, issue, "carol", "please")
    start = await stage.gateway.ensure_start_commit(stage.repo, stage.head(), "Start")
    # A reaction is written without a look first (GitHub keeps one per user), so its answer is lost just once.
    stage.github.add_fault(method="POST", path="/reactions$", status=502, apply=True, times=1)
    lost, done = 0, False
    while not done:
        # The next write that is still to be made.
        stage.github.add_fault(
            method="WRITE", path="^/(?!app/)(?!.*/reactions$)", status=502, apply=True, times=1
        )
        try:
            await work(stage, issue, asked["id"], start)
            done = True
        except RetryAt:
            lost += 1
            assert lost < 20
    assert lost == 11
    [pull] = stage.github.pulls(stage.name)
    found = await stage.gateway.fetch_pull(stage.repo, int(pull["number"]))
    assert (found.draft, found.body, found.head_sha) == (False, f"Closes #{issue}", start)
    state = stage.github.issue(stage.name, issue)
    assert state["state"] == "closed"
    assert [MARKER in one["body"] for one in state["comment_list"]] == [False, True]
    assert [run["conclusion"] for run in stage.github.check_runs(stage.name)] == ["success"]
    assert [name for name in stage.labels() if name.startswith("agent")] == ["agent", "agent:quick"]
    assert stage.github.get_comment(asked["id"])["reactions"]["eyes"] == 1


async def change(stage: Stage, issue: IssueNumber, pull: int, start: str) -> None:
    """What a run changes and takes away again, without remembering anything."""
    gateway, repo = stage.gateway, stage.repo
    await gateway.ensure_comment(repo, issue, MARKER, f"Done\n{MARKER}", known_id=None)
    await gateway.ensure_check_run(repo, start, "spec_1", DONE, known_id=None)
    await gateway.ensure_pull_closed(repo, pull)
    assert await gateway.ensure_branch_deleted(repo, BRANCH, start)


async def test_every_answer_to_an_edit_or_a_removal_lost_once_changes_each_thing_once(stage: Stage) -> None:
    gateway, repo = stage.gateway, stage.repo
    issue = IssueNumber(int(stage.github.open_issue(stage.name, "alice", "Count")["number"]))
    start = await gateway.ensure_start_commit(repo, stage.head(), "Start")
    await gateway.ensure_comment(repo, issue, MARKER, f"Working\n{MARKER}", known_id=None)
    assert await gateway.ensure_branch(repo, BRANCH, start)
    pull = await gateway.ensure_pull(repo, head=BRANCH, base="main", title="Count", body="x")
    await gateway.ensure_check_run(repo, start, "spec_1", CheckOutput("At work", "", ""), known_id=None)
    before, lost, done = len(stage.writes()), 0, False
    while not done:
        stage.github.add_fault(method="WRITE", path="^/(?!app/)", status=502, apply=True, times=1)
        try:
            await change(stage, issue, pull.number, start)
            done = True
        except RetryAt:
            lost += 1
            assert lost < 10
    assert lost == 4
    assert len(stage.writes()) == before, "each was answered with 502 and not made again"
    [comment] = stage.github.issue(stage.name, issue)["comment_list"]
    assert comment["body"].startswith("Done")
    assert [run["conclusion"] for run in stage.github.check_runs(stage.name)] == ["success"]
    assert stage.github.pulls(stage.name)[0]["state"] == "closed"
    assert f"refs/heads/{BRANCH}" not in stage.github.refs(stage.name)


async def test_start_commit_whose_answer_was_lost_is_made_again_and_only_one_is_on_a_branch(
    stage: Stage,
) -> None:
    stage.github.add_fault(method="POST", path="/git/commits$", status=502, apply=True, times=1)
    with suppress(RetryAt):
        await stage.gateway.ensure_start_commit(stage.repo, stage.head(), "Start")
    start = await stage.gateway.ensure_start_commit(stage.repo, stage.head(), "Start")
    assert await stage.gateway.ensure_branch(stage.repo, BRANCH, start)
    assert stage.head(BRANCH) == start
