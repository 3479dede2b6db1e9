"""References, pull requests, reviews, checks and GraphQL: rules and refusals."""

from typing import Any

import pytest

from tests.simulators.github.conftest import REPO, Stage


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("refs/heads/main", "Reference already exists"),
        ("refs/heads/taken/below", "Reference update failed"),
        ("refs/heads/bad..name", "is not a valid ref name"),
        ("refs/heads/bad name", "is not a valid ref name"),
        ("refs/heads/x.lock", "is not a valid ref name"),
        ("heads/x", "must start with 'refs/'"),
    ],
)
def test_ref_when_it_can_not_be_made_then_422_says_why(stage: Stage, ref: str, message: str) -> None:
    stage.control.create_branch(REPO, "alice", "taken")
    with stage.client() as http:
        answer = http.post(f"/repos/{REPO}/git/refs", json={"ref": ref, "sha": stage.head()})
        missing = http.post(f"/repos/{REPO}/git/refs", json={"ref": "refs/heads/y", "sha": "0" * 40})
    assert answer.status_code == 422
    assert message in answer.json()["message"]
    assert missing.json()["message"] == "Object does not exist"


def test_ref_when_moved_backwards_then_only_with_force(stage: Stage) -> None:
    old = stage.head()
    stage.control.push(REPO, "alice", "main", {"x": "y"})
    with stage.client() as http:
        url = f"/repos/{REPO}/git/refs/heads/main"
        refused = http.patch(url, json={"sha": old})
        assert (refused.status_code, refused.json()["message"]) == (422, "Update is not a fast forward")
        assert http.patch(url, json={"sha": old, "force": True}).status_code == 200
        assert http.patch(f"/repos/{REPO}/git/refs/heads/none", json={"sha": old}).status_code == 422
        assert http.delete(f"/repos/{REPO}/git/refs/heads/none").status_code == 422
        assert http.get(f"/repos/{REPO}/git/ref/heads/mai").status_code == 404


def test_commit_when_made_without_author_then_verified_as_the_app(stage: Stage) -> None:
    tree = stage.sim.platform.world.repository(REPO).git.commit(stage.head()).tree
    body = {"message": "Start", "tree": tree, "parents": [stage.head()]}
    with stage.client() as http:
        own = http.post(f"/repos/{REPO}/git/commits", json=body).json()
        author = {"name": "X", "email": "x@example.com"}
        custom = http.post(f"/repos/{REPO}/git/commits", json={**body, "author": author}).json()
    assert own["verification"]["verified"]
    assert own["author"]["name"] == "issuewright[bot]"
    assert own["author"]["email"] == f"{stage.app['bot']['id']}+issuewright[bot]@users.noreply.github.com"
    assert not custom["verification"]["verified"]


def create(http: Any, **fields: Any) -> Any:
    body = {"title": "T", "head": "feature/1-x", "base": "main", **fields}
    return http.post(f"/repos/{REPO}/pulls", json=body)


def test_pull_when_it_can_not_be_made_then_422_says_why(stage: Stage) -> None:
    stage.control.create_branch(REPO, "alice", "same")
    stage.control.push(REPO, "alice", "feature/1-x", {"x": "y"})
    with stage.client() as http:
        none = create(http, head="same")
        assert none.json()["errors"][0]["message"] == "No commits between main and same"
        assert create(http, head="missing").json()["errors"][0]["field"] == "head"
        assert create(http, base="missing").json()["errors"][0]["field"] == "base"
        stage.control.update_repo(REPO, drafts_allowed=False)
        assert create(http, draft=True).status_code == 422
        assert create(http).status_code == 201
        again = create(http, head="alice:feature/1-x")
    assert again.status_code == 422
    assert again.json()["errors"][0]["message"] == "A pull request already exists for alice:feature/1-x."


def test_merge_when_base_is_default_then_closes_issue_else_not(stage: Stage) -> None:
    control = stage.control
    control.create_branch(REPO, "alice", "develop")
    one, two = (control.open_issue(REPO, "bob", f"T{i}")["number"] for i in range(2))
    first = stage.pull("feature/1-x", body=f"Closes #{one}")
    second = stage.pull("feature/2-y", "other.txt", base="develop", body=f"Closes #{two}")
    merged = control.merge_pull(REPO, first, "carol")
    control.merge_pull(REPO, second, "carol", "squash")
    assert merged["merged"]
    assert merged["merged_by"]["login"] == "carol"
    assert control.issue(REPO, one)["state"] == "closed"
    assert control.issue(REPO, two)["state"] == "open"
    events = stage.wait(lambda: len(found := stage.receiver.events("pull_request", "closed")) == 2 and found)
    assert all(event["pull_request"]["merged"] for event in events)


def test_merge_when_draft_conflicting_or_stale_then_refused(stage: Stage) -> None:
    number = stage.pull("feature/1-x", "README.md", "mine\n", draft=True)
    stage.control.push(REPO, "alice", "main", {"README.md": "theirs\n"})
    with stage.client() as http:
        url = f"/repos/{REPO}/pulls/{number}"
        assert http.put(f"{url}/merge", json={}).status_code == 405
        stage.control.set_draft(REPO, number, "alice", draft=False)
        assert http.get(url).json()["mergeable_state"] == "dirty"
        assert http.put(f"{url}/merge", json={}).status_code == 405
        assert http.put(f"{url}/merge", json={"sha": "0" * 40}).status_code == 409


def test_branch_when_deleted_then_its_pull_request_closes(stage: Stage) -> None:
    number = stage.pull()
    stage.control.delete_branch(REPO, "alice", "feature/1-x")
    assert stage.control.issue(REPO, number)["state"] == "closed"
    stage.wait(lambda: stage.receiver.events("delete"))
    with stage.client() as http:
        assert http.patch(f"/repos/{REPO}/pulls/{number}", json={"state": "open"}).status_code == 422


def test_fork_when_pull_request_comes_from_it_then_head_repo_differs_or_is_null(stage: Stage) -> None:
    control = stage.control
    control.create_repo("bob", "demo", parent=REPO)
    control.push("bob/demo", "bob", "patch", {"p.txt": "p\n"})
    pull = control.open_pull(REPO, "bob", "From a fork", "patch", head_repo="bob/demo")
    assert pull["head"]["repo"]["full_name"] == "bob/demo"
    assert pull["changed_files"] == 1
    assert control.lose_head(REPO, pull["number"])["head"]["repo"] is None


def test_reviewers_when_author_or_stranger_then_422(stage: Stage) -> None:
    stage.control.push(REPO, "alice", "feature/1-x", {"x": "y"})
    number = stage.control.open_pull(REPO, "carol", "T", "feature/1-x")["number"]
    with stage.client() as http:
        url = f"/repos/{REPO}/pulls/{number}/requested_reviewers"
        assert "author" in http.post(url, json={"reviewers": ["carol"]}).json()["message"]
        assert "not a collaborator" in http.post(url, json={"reviewers": ["dave"]}).json()["message"]
        assert http.post(url, json={"reviewers": ["alice"]}).status_code == 201


def test_review_when_submitted_then_one_event_and_one_per_comment(stage: Stage) -> None:
    number = stage.pull()
    remarks = [{"path": "new.txt", "body": f"No {i}"} for i in range(3)] + [
        {"path": "new.txt", "body": "Old", "outdated": True}
    ]
    stage.control.review(REPO, number, "carol", "REQUEST_CHANGES", "Please", remarks)
    stage.wait(lambda: len(stage.receiver.events("pull_request_review_comment")) == 4)
    reviews = stage.receiver.events("pull_request_review", "submitted")
    assert [one["review"]["state"] for one in reviews] == ["changes_requested"]
    with stage.client() as http:
        found = http.get(f"/repos/{REPO}/pulls/{number}/comments").json()
        mine = http.post(f"/repos/{REPO}/pulls/{number}/reviews", json={"event": "COMMENT"})
        elsewhere = {"event": "COMMENT", "comments": [{"path": "none.txt", "line": 1, "body": "x"}]}
        wrong = http.post(f"/repos/{REPO}/pulls/{number}/reviews", json=elsewhere)
    assert [one["position"] is None for one in found] == [False, False, False, True]
    assert (mine.status_code, wrong.status_code) == (422, 422)


def test_line_comment_when_its_file_changes_then_outdated(stage: Stage) -> None:
    number = stage.pull()
    comment = stage.control.line_comment(REPO, number, "carol", "new.txt", "Hm")
    stage.control.push(REPO, "alice", "feature/1-x", {"new.txt": "changed\n"})
    found = stage.control.get_comment(comment["id"])
    assert (found["position"], found["line"], found["original_line"]) == (None, None, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"actions": [{"label": "x", "description": "x", "identifier": str(i)} for i in range(4)]},
        {"actions": [{"label": "x" * 21, "description": "x", "identifier": "x"}]},
        {"output": {"title": "t", "summary": "x" * 65536}},
        {"output": {"title": "t"}},
        {"status": "completed"},
        {"conclusion": "great"},
    ],
)
def test_check_when_over_a_limit_then_422_and_nothing_made(stage: Stage, fields: dict[str, Any]) -> None:
    with stage.client() as http:
        body = {"name": "Issuewright", "head_sha": stage.head(), **fields}
        assert http.post(f"/repos/{REPO}/check-runs", json=body).status_code == 422
        found = http.get(f"/repos/{REPO}/commits/main/check-runs").json()
    assert found["total_count"] == 0


def test_check_when_of_another_app_then_403(stage: Stage) -> None:
    other = stage.control.create_app("CI", "alice", {"checks": "write"}, [])
    run = stage.control.create_check(REPO, other["id"], "ci", stage.head())
    with stage.client() as http:
        answer = http.patch(f"/repos/{REPO}/check-runs/{run['id']}", json={"conclusion": "success"})
    assert answer.status_code == 403


def graphql(http: Any, query: str, **variables: Any) -> dict[str, Any]:
    answer: dict[str, Any] = http.post("/graphql", json={"query": query, "variables": variables}).json()
    return answer


READY = """
mutation Ready($id: ID!) {
  markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { ...Fields } }
}
fragment Fields on PullRequest { number isDraft }
"""
THREADS = """
query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) { isDraft
    reviewThreads(first: 1, after: $after) {
      nodes { id isResolved isOutdated path comments(first: 10) { nodes { databaseId author { login __typename } body } } }
      pageInfo { hasNextPage endCursor } } } } }
"""


def test_graphql_when_draft_is_marked_ready_then_event(stage: Stage) -> None:
    number = stage.pull(draft=True)
    node = stage.control.issue(REPO, number)["pull"]["node_id"]
    with stage.client() as http:
        answer = graphql(http, READY, id=node)
    assert answer == {
        "data": {"markPullRequestReadyForReview": {"pullRequest": {"number": number, "isDraft": False}}}
    }
    stage.wait(lambda: stage.receiver.events("pull_request", "ready_for_review"))


def test_graphql_when_threads_are_paged_and_resolved_then_shown(stage: Stage) -> None:
    number = stage.pull()
    first = stage.control.line_comment(REPO, number, "carol", "new.txt", "One")
    stage.control.line_comment(REPO, number, "carol", "new.txt", "Two")
    names = {"owner": "alice", "name": "demo", "number": number}
    with stage.client() as http:
        threads = graphql(http, THREADS, **names)["data"]["repository"]["pullRequest"]["reviewThreads"]
        assert threads["nodes"][0]["comments"]["nodes"][0]["databaseId"] == first["id"]
        assert threads["pageInfo"]["hasNextPage"]
        after = threads["pageInfo"]["endCursor"]
        rest = graphql(http, THREADS, **names, after=after)["data"]["repository"]["pullRequest"][
            "reviewThreads"
        ]
        assert not rest["pageInfo"]["hasNextPage"]
        resolve = "mutation($id:ID!){resolveReviewThread(input:{threadId:$id}){thread{isResolved resolvedBy{login}}}}"
        answer = graphql(http, resolve, id=threads["nodes"][0]["id"])
    assert answer["data"]["resolveReviewThread"]["thread"]["isResolved"]
    stage.wait(lambda: stage.receiver.events("pull_request_review_thread", "resolved"))


def test_graphql_when_reacting_and_minimizing_then_done(stage: Stage) -> None:
    comment = stage.control.comment(REPO, stage.control.open_issue(REPO, "bob", "T")["number"], "bob", "Hi")
    react = "mutation($id:ID!){addReaction(input:{subjectId:$id,content:ROCKET}){reaction{content}}}"
    hide = "mutation($id:ID!){minimizeComment(input:{subjectId:$id,classifier:OUTDATED}){minimizedComment{isMinimized minimizedReason}}}"
    with stage.client() as http:
        assert (
            graphql(http, react, id=comment["node_id"])["data"]["addReaction"]["reaction"]["content"]
            == "ROCKET"
        )
        found = graphql(http, hide, id=comment["node_id"])["data"]["minimizeComment"]["minimizedComment"]
    assert found == {"isMinimized": True, "minimizedReason": "outdated"}


def test_graphql_when_it_fails_then_errors_in_githubs_shape(stage: Stage) -> None:
    number = stage.pull(draft=True)
    node = stage.control.issue(REPO, number)["pull"]["node_id"]
    with stage.client() as http, stage.client({"pull_requests": "read"}) as reader:
        unknown = graphql(http, READY, id="PR_nonsense")
        denied = graphql(reader, READY, id=node)
        broken = graphql(http, "query {")
        field = graphql(http, "{viewer{shoeSize}}")
    assert unknown["errors"][0]["type"] == "NOT_FOUND"
    assert unknown["errors"][0]["path"] == ["markPullRequestReadyForReview"]
    assert denied["errors"][0]["type"] == "FORBIDDEN"
    assert denied["data"] == {"markPullRequestReadyForReview": None}
    assert "data" not in broken
    assert "shoeSize" in field["errors"][0]["message"]
