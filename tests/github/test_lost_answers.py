"""Every write applied and then answered 502, once each: asked again until done, everything exists once."""

from __future__ import annotations

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
    assert [run["conclusion"] for run in stage.github.repo(stage.name)["check_runs"]] == ["success"]
    assert [name for name in stage.labels() if name.startswith("agent")] == ["agent", "agent:quick"]
    assert stage.github.get_comment(asked["id"])["reactions"]["eyes"] == 1
