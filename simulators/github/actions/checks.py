"""Check runs, suites and workflow runs."""

from typing import Any

from simulators.github.actions.refs import ensure_suite
from simulators.github.model import App, CheckRun, CheckSuite, Job, Repository, User, WorkflowRun
from simulators.github.platform import Platform
from simulators.github.shapes.checks import check_run_event_json, suite_json, suite_state, workflow_run_json

Json = dict[str, Any]


def emit_check(
    platform: Platform,
    repository: Repository,
    run: CheckRun,
    actor: User,
    action: str,
    extra: Json | None = None,
) -> None:
    """A ``check_run`` event; buttons and re-runs go to the App that owns the run alone."""
    shape = check_run_event_json(platform.world, repository, run)
    only = run.app_id if action in ("requested_action", "rerequested") else None
    body = {"action": action, "check_run": shape, **(extra or {})}
    platform.emit("check_run", repository, actor, body, only_app=only)


def create_check(platform: Platform, repository: Repository, app: App, name: str, sha: str) -> CheckRun:
    """A new run in state ``queued``, in the App's suite on that head; no event yet."""
    world = platform.world
    suite = ensure_suite(platform, repository, app.id, sha)
    run = CheckRun(world.new_id(), repository.id, suite.id, app.id, name, sha, "queued", world.now())
    repository.check_runs[run.id] = run
    return run


def conclude_check(platform: Platform, repository: Repository, run: CheckRun, actor: User) -> None:
    """Tells that a run has completed, and that its suite has when it was the last."""
    suite = platform.world.suite(repository, run.suite_id)
    suite.updated_at = platform.world.now()
    emit_check(platform, repository, run, actor, "completed")
    if suite_state(repository, suite)[0] == "completed":
        emit_suite(platform, repository, suite, actor, "completed")


def emit_suite(
    platform: Platform, repository: Repository, suite: CheckSuite, actor: User, action: str
) -> None:
    """A ``check_suite`` event; a re-run goes to the App that owns the suite alone."""
    body = {"action": action, "check_suite": suite_json(platform.world, repository, suite)}
    only = suite.app_id if action == "rerequested" else None
    platform.emit("check_suite", repository, actor, body, only_app=only)


def add_workflow_run(
    platform: Platform,
    repository: Repository,
    app: App,
    actor: User,
    name: str,
    branch: str,
    sha: str,
    conclusion: str | None,
    jobs: list[Json],
) -> WorkflowRun:
    """A GitHub Actions run with its jobs (name, conclusion, log, annotations); ``conclusion`` None: still running."""
    world = platform.world
    now = world.now()
    suite = ensure_suite(platform, repository, app.id, sha, branch)
    number = len(repository.workflow_runs) + 1
    path = f".github/workflows/{name.lower().replace(' ', '-')}.yml"
    status = "completed" if conclusion else "in_progress"
    run = WorkflowRun(
        world.new_id(),
        repository.id,
        suite.id,
        name,
        path,
        number,
        "pull_request",
        branch,
        sha,
        status,
        conclusion,
        now,
        now,
    )
    repository.workflow_runs[run.id] = run
    for given in jobs:
        check = create_check(platform, repository, app, given["name"], sha)
        check.status, check.conclusion = status, given.get("conclusion", conclusion)
        check.completed_at = now if conclusion else None
        check.annotations = list(given.get("annotations", []))
        check.details_url = (
            f"{world.base_url}/{world.full_name(repository)}/actions/runs/{run.id}/job/{check.id}"
        )
        emit_check(platform, repository, check, actor, "created")
        if conclusion:
            emit_check(platform, repository, check, actor, "completed")
        job = Job(check.id, given["name"], status, check.conclusion, given.get("log", ""), check.id)
        run.jobs.append(job)
    if conclusion and jobs:
        emit_suite(platform, repository, suite, actor, "completed")
    emit_workflow_run(platform, repository, run, actor)
    return run


def emit_workflow_run(platform: Platform, repository: Repository, run: WorkflowRun, actor: User) -> None:
    """``workflow_run.completed`` or ``in_progress``."""
    shape = workflow_run_json(platform.world, repository, run)
    workflow = {
        "id": shape["workflow_id"],
        "node_id": shape["node_id"],
        "name": run.name,
        "path": run.path,
        "state": "active",
        "created_at": shape["created_at"],
        "updated_at": shape["updated_at"],
        "url": shape["workflow_url"],
        "html_url": f"{shape['repository']['html_url']}/blob/{run.head_branch}/{run.path}",
        "badge_url": f"{shape['repository']['html_url']}/workflows/{run.name}/badge.svg",
    }
    action = "completed" if run.status == "completed" else "in_progress"
    body = {"action": action, "workflow_run": shape, "workflow": workflow}
    platform.emit("workflow_run", repository, actor, body)
