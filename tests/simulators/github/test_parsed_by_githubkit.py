"""Every REST answer and every webhook body is what GitHub's own schemas describe, by githubkit's models."""

import base64
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from githubkit import GitHub, webhooks
from githubkit.response import Response

from simulators.github.rest.routing import ROUTES, find_route
from tests.simulators.github.conftest import REPO, Stage

OWNER, NAME = REPO.split("/")
# 302 to a text, or text itself: nothing to parse
UNTYPED = {
    ("GET", "/repos/{owner}/{repo}/actions/jobs/{job_id:int}/logs"),
    ("GET", "/repos/{owner}/{repo}/contents"),
    ("GET", "/zen"),
    ("GET", "/versions"),
    ("GET", "/repos/{owner}/{repo}/pulls/{number:int}/merge"),
    ("GET", "/user/{user_id:int}"),
}


class Typed:
    """Calls githubkit and parses each answer."""

    def __init__(self, stage: Stage, token: str) -> None:
        self.gh = GitHub(token, base_url=stage.url, http_cache=False, auto_retry=False)
        self.rest = self.gh.rest

    def __call__(self, response: Response[Any, Any]) -> Any:
        if response.status_code != 204 and response.content:
            return response.parsed_data
        return None


@pytest.fixture
def typed(stage: Stage) -> Typed:
    return Typed(stage, stage.control.token(stage.installation))


@pytest.fixture
def typed_app(stage: Stage) -> Typed:
    return Typed(stage, stage.jwt())


def call_app_routes(stage: Stage, t: Typed, i: Typed) -> None:
    t(t.rest.apps.get_authenticated())
    t(t.rest.apps.list_installations())
    t(t.rest.apps.get_installation(stage.installation))
    t(t.rest.apps.get_repo_installation(OWNER, NAME))
    token = t(t.rest.apps.create_installation_access_token(stage.installation, repositories=[NAME]))
    narrow = Typed(stage, token.token)
    narrow(narrow.rest.apps.list_repos_accessible_to_installation())
    narrow(narrow.rest.apps.revoke_installation_access_token())
    t(t.rest.apps.get_webhook_config_for_app())
    t(t.rest.apps.update_webhook_config_for_app(url=stage.receiver.url))
    stage.control.wait_for_delivery("installation", "created")
    deliveries = t(t.rest.apps.list_webhook_deliveries())
    t(t.rest.apps.get_webhook_delivery(deliveries[0].id))
    t(t.rest.apps.redeliver_webhook_delivery(deliveries[0].id))
    i(i.rest.users.get_by_username("issuewright[bot]"))
    i(i.rest.meta.get())
    i(i.rest.rate_limit.get())


def call_issue_routes(t: Typed) -> int:
    rest = t.rest
    t(rest.repos.get(OWNER, NAME))
    t(rest.repos.get_collaborator_permission_level(OWNER, NAME, "carol"))
    issue = t(rest.issues.create(OWNER, NAME, title="A title", body="Text", labels=["agent"]))
    n = issue.number
    t(rest.issues.list_for_repo(OWNER, NAME))
    t(rest.issues.get(OWNER, NAME, n))
    below = t(rest.issues.create(OWNER, NAME, title="A part of it"))
    t(rest.issues.add_sub_issue(OWNER, NAME, n, sub_issue_id=below.id))
    t(rest.issues.list_sub_issues(OWNER, NAME, n))
    t(rest.issues.update(OWNER, NAME, n, title="Another", labels=["agent", "bug"]))
    comment = t(rest.issues.create_comment(OWNER, NAME, n, body="Hello"))
    t(rest.issues.list_comments(OWNER, NAME, n))
    t(rest.issues.list_comments_for_repo(OWNER, NAME))
    t(rest.issues.get_comment(OWNER, NAME, comment.id))
    t(rest.issues.update_comment(OWNER, NAME, comment.id, body="Changed"))
    t(rest.issues.create_label(OWNER, NAME, name="agent:plan", color="0000ff", description="Plans"))
    t(rest.issues.list_labels_for_repo(OWNER, NAME))
    t(rest.issues.get_label(OWNER, NAME, "agent:plan"))
    t(rest.issues.update_label(OWNER, NAME, "agent:plan", color="00ff00"))
    t(rest.issues.add_labels(OWNER, NAME, n, labels=["agent:plan"]))
    t(rest.issues.list_labels_on_issue(OWNER, NAME, n))
    t(rest.issues.set_labels(OWNER, NAME, n, labels=["agent", "agent:plan"]))
    t(rest.issues.remove_label(OWNER, NAME, n, "agent:plan"))
    t(rest.issues.delete_label(OWNER, NAME, "agent:plan"))
    t(rest.issues.list_events(OWNER, NAME, n))
    reaction = t(rest.reactions.create_for_issue(OWNER, NAME, n, content="eyes"))
    t(rest.reactions.list_for_issue(OWNER, NAME, n))
    t(rest.reactions.delete_for_issue(OWNER, NAME, n, reaction.id))
    reaction = t(rest.reactions.create_for_issue_comment(OWNER, NAME, comment.id, content="rocket"))
    t(rest.reactions.list_for_issue_comment(OWNER, NAME, comment.id))
    t(rest.reactions.delete_for_issue_comment(OWNER, NAME, comment.id, reaction.id))
    t(rest.issues.delete_comment(OWNER, NAME, comment.id))
    return int(n)


def call_git_routes(t: Typed) -> None:
    rest = t.rest
    ref = t(rest.git.get_ref(OWNER, NAME, "heads/main"))
    t(rest.git.list_matching_refs(OWNER, NAME, "heads/"))
    parent = t(rest.git.get_commit(OWNER, NAME, ref.object_.sha))
    t(rest.git.get_tree(OWNER, NAME, parent.tree.sha, recursive="1"))
    blob = t(rest.git.create_blob(OWNER, NAME, content=base64.b64encode(b"x").decode(), encoding="base64"))
    t(rest.git.get_blob(OWNER, NAME, blob.sha))
    entry: Any = {"path": "new.txt", "mode": "100644", "type": "blob", "sha": blob.sha}
    tree = t(rest.git.create_tree(OWNER, NAME, base_tree=parent.tree.sha, tree=[entry]))
    commit = t(rest.git.create_commit(OWNER, NAME, message="Add", tree=tree.sha, parents=[parent.sha]))
    assert commit.verification.verified
    for name in ("feature/1-x", "scratch"):
        t(rest.git.create_ref(OWNER, NAME, ref=f"refs/heads/{name}", sha=parent.sha))
    t(rest.git.update_ref(OWNER, NAME, "heads/feature/1-x", sha=commit.sha, force=False))
    t(rest.git.delete_ref(OWNER, NAME, "heads/scratch"))
    t(rest.repos.list_branches(OWNER, NAME))
    t(rest.repos.get_branch(OWNER, NAME, "feature/1-x"))
    t(rest.repos.get_content(OWNER, NAME, "README.md"))
    t(rest.repos.get_content(OWNER, NAME, "src"))
    t(rest.repos.get_content(OWNER, NAME, ""))
    t(rest.repos.list_commits(OWNER, NAME, sha="feature/1-x"))
    t(rest.repos.get_commit(OWNER, NAME, commit.sha))
    t(rest.repos.compare_commits(OWNER, NAME, "main...feature/1-x"))


def call_pull_routes(stage: Stage, t: Typed) -> None:
    rest = t.rest
    pull = t(
        rest.pulls.create(OWNER, NAME, title="Add", head="feature/1-x", base="main", draft=True, body="Text")
    )
    n = pull.number
    t(rest.pulls.list(OWNER, NAME, head="alice:feature/1-x"))
    t(rest.pulls.get(OWNER, NAME, n))
    t(rest.pulls.update(OWNER, NAME, n, title="Better"))
    t(rest.pulls.list_files(OWNER, NAME, n))
    t(rest.pulls.list_commits(OWNER, NAME, n))
    t(rest.repos.list_pull_requests_associated_with_commit(OWNER, NAME, pull.head.sha))
    t(rest.pulls.request_reviewers(OWNER, NAME, n, reviewers=["carol"]))
    t(rest.pulls.list_requested_reviewers(OWNER, NAME, n))
    t(rest.pulls.remove_requested_reviewers(OWNER, NAME, n, reviewers=["carol"]))
    remarks = [{"path": "new.txt", "line": 1, "body": "Here"}]
    review = t(rest.pulls.create_review(OWNER, NAME, n, event="COMMENT", body="Some", comments=remarks))
    t(rest.pulls.list_reviews(OWNER, NAME, n))
    t(rest.pulls.get_review(OWNER, NAME, n, review.id))
    comments = t(rest.pulls.list_comments_for_review(OWNER, NAME, n, review.id))
    theirs = stage.control.review(REPO, n, "carol", "REQUEST_CHANGES", "No")
    t(rest.pulls.dismiss_review(OWNER, NAME, n, theirs["id"], message="Old"))
    t(rest.pulls.list_review_comments(OWNER, NAME, n))
    t(
        rest.pulls.create_review_comment(
            OWNER, NAME, n, body="One", commit_id=pull.head.sha, path="new.txt", line=1
        )
    )
    reply = t(rest.pulls.create_reply_for_review_comment(OWNER, NAME, n, comments[0].id, body="Done"))
    t(rest.pulls.get_review_comment(OWNER, NAME, reply.id))
    t(rest.pulls.update_review_comment(OWNER, NAME, reply.id, body="Done."))
    reaction = t(rest.reactions.create_for_pull_request_review_comment(OWNER, NAME, reply.id, content="+1"))
    t(rest.reactions.list_for_pull_request_review_comment(OWNER, NAME, reply.id))
    t(rest.reactions.delete_for_pull_request_comment(OWNER, NAME, reply.id, reaction.id))
    t(rest.pulls.delete_review_comment(OWNER, NAME, reply.id))
    call_check_routes(stage, t, pull.head.sha)
    stage.control.set_draft(REPO, n, "alice", draft=False)
    t(rest.pulls.merge(OWNER, NAME, n))


def call_check_routes(stage: Stage, t: Typed, sha: str) -> None:
    rest = t.rest
    run = t(
        rest.checks.create(
            OWNER, NAME, data={"name": "Issuewright", "head_sha": sha, "status": "in_progress"}
        )
    )
    annotation = {
        "path": "new.txt",
        "start_line": 1,
        "end_line": 1,
        "annotation_level": "notice",
        "message": "Look",
    }
    output = {"title": "T", "summary": "S", "annotations": [annotation]}
    update: Any = {"conclusion": "success", "status": "completed", "output": output}
    t(rest.checks.update(OWNER, NAME, run.id, data=update))
    t(rest.checks.get(OWNER, NAME, run.id))
    t(rest.checks.list_annotations(OWNER, NAME, run.id))
    t(rest.checks.list_for_ref(OWNER, NAME, sha))
    suites = t(rest.checks.list_suites_for_ref(OWNER, NAME, sha))
    suite_id = suites.check_suites[0].id
    t(rest.checks.get_suite(OWNER, NAME, suite_id))
    t(rest.checks.list_for_suite(OWNER, NAME, suite_id))
    t(rest.checks.rerequest_suite(OWNER, NAME, suite_id))
    t(rest.checks.rerequest_run(OWNER, NAME, run.id))
    t(rest.repos.get_combined_status_for_ref(OWNER, NAME, sha))
    other = stage.control.create_app("CI", "alice", {"checks": "write"}, [])
    stage.control.workflow_run(REPO, other["id"], "alice", "Tests", "feature/1-x", conclusion="failure")
    runs = t(rest.actions.list_workflow_runs_for_repo(OWNER, NAME))
    run_id = runs.workflow_runs[0].id
    t(rest.actions.get_workflow_run(OWNER, NAME, run_id))
    jobs = t(rest.actions.list_jobs_for_workflow_run(OWNER, NAME, run_id))
    t(rest.actions.get_job_for_workflow_run(OWNER, NAME, jobs.jobs[0].id))
    t(rest.actions.re_run_workflow(OWNER, NAME, run_id))
    t(rest.actions.re_run_workflow_failed_jobs(OWNER, NAME, run_id))


def convert_manifest(stage: Stage, t: Typed) -> None:
    manifest = '{"url": "https://example.com", "redirect_url": "http://127.0.0.1/done", "default_events": []}'
    with stage.client() as http:
        answer = http.post("/settings/apps/new", data={"manifest": manifest})
    code = unquote(urlsplit(answer.headers["location"]).query.removeprefix("code="))
    t(t.rest.apps.create_from_manifest(code))


def test_every_route_when_called_then_its_answer_parses(stage: Stage, typed: Typed, typed_app: Typed) -> None:
    call_app_routes(stage, typed_app, typed)
    call_issue_routes(typed)
    call_git_routes(typed)
    call_pull_routes(stage, typed)
    convert_manifest(stage, typed)
    called = set()
    for entry in stage.control.requests("rest"):
        found = find_route(entry["method"], entry["path"])
        if found and entry["status"] < 400:
            called.add((entry["method"], found[0].template))
    assert {(route.method, route.template) for route in ROUTES} - called - UNTYPED == set()


def play_issue(stage: Stage) -> int:
    control = stage.control
    number = control.open_issue(REPO, "bob", "Title", "Body", ["agent"])["number"]
    control.edit_issue(REPO, number, "bob", title="Other")
    control.remove_label(REPO, number, "bob", "agent")
    comment = control.comment(REPO, number, "bob", "Hello")["id"]
    control.edit_comment(comment, "bob", "Hello!")
    control.delete_comment(comment, "bob")
    control.lock_issue(REPO, number, "alice")
    control.lock_issue(REPO, number, "alice", locked=False)
    control.close_issue(REPO, number, "bob")
    control.reopen_issue(REPO, number, "bob")
    control.assign(REPO, number, "alice", "carol")
    return int(number)


def play_pull(stage: Stage) -> None:
    control = stage.control
    pull = stage.pull(draft=True)
    control.add_labels(REPO, pull, "alice", "bug")
    control.set_draft(REPO, pull, "alice", draft=False)
    control.set_draft(REPO, pull, "alice", draft=True)
    control.push(REPO, "alice", "feature/1-x", {"new.txt": "newer\n"})
    review = control.review(
        REPO, pull, "carol", "REQUEST_CHANGES", "No", [{"path": "new.txt", "body": "Why?"}]
    )
    line = review["comments"][0]["id"]
    control.edit_line_comment(line, "carol", "Why so?")
    control.resolve_thread(line, "alice")
    control.resolve_thread(line, "alice", resolved=False)
    control.dismiss_review(review["id"], "alice")
    control.delete_line_comment(line, "carol")
    run = control.create_check(
        REPO, stage.app["id"], "Issuewright", stage.head("feature/1-x"), conclusion="failure"
    )
    control.press_button(run["id"], "carol", "retry")
    control.rerun_check(run["id"], "carol")
    control.rerun_suite(REPO, run["check_suite"]["id"], "carol")
    control.workflow_run(REPO, stage.app["id"], "alice", "Tests", "feature/1-x")
    control.close_pull(REPO, pull, "alice")
    control.reopen_pull(REPO, pull, "alice")
    control.retarget_pull(REPO, pull, "alice", "main")
    control.merge_pull(REPO, pull, "alice", delete_branch=True)


def play_repository_and_installation(stage: Stage, number: int) -> None:
    control = stage.control
    control.create_repo("alice", "other", {"a": "b"})
    control.transfer_issue(REPO, number, "alice", "alice/other")
    doomed = control.open_issue(REPO, "bob", "Doomed")["number"]
    control.delete_issue(REPO, doomed, "alice")
    control.rename_label(REPO, "alice", "bug", "defect")
    control.delete_label(REPO, "alice", "defect")
    control.archive_repo(REPO, "alice")
    control.archive_repo(REPO, "alice", archived=False)
    control.rename_repo(REPO, "alice", "renamed")
    control.set_private("alice/renamed", "alice", private=False)
    control.remove_from_installation(stage.installation, "alice", ["alice/other"])
    control.add_to_installation(stage.installation, "alice", ["alice/other"])
    control.suspend(stage.installation, "alice")
    control.unsuspend(stage.installation, "alice")
    control.accept_permissions(stage.installation, "alice")
    control.revoke_authorization(stage.app["id"], "alice")
    control.update_app(stage.app["id"], ping=True)
    control.uninstall(stage.installation, "alice")


def test_every_webhook_when_sent_then_its_body_parses(stage: Stage) -> None:
    number = play_issue(stage)
    play_pull(stage)
    play_repository_and_installation(stage, number)
    sent = stage.control.deliveries()
    problems = []
    for delivery in sent:
        try:
            webhooks.parse_obj(delivery["event"], delivery["payload"])
        except ValueError as problem:
            problems.append(f"{delivery['event']}.{delivery['action']}: {str(problem)[:600]}")
    assert not problems, "\n".join(problems)
    kinds = {(one["event"], one["action"]) for one in sent}
    assert len(kinds) >= 55
