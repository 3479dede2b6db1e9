"""Check runs, check suites and workflow runs as JSON."""

from typing import Any

from simulators.github.clock import iso, iso_or_none
from simulators.github.model import CheckRun, CheckSuite, Job, Repository, WorkflowRun
from simulators.github.nodes import node_id
from simulators.github.shapes.accounts import app_json, user_json
from simulators.github.shapes.commits import simple_commit_json
from simulators.github.shapes.pulls import pull_minimal_json
from simulators.github.shapes.repositories import api_url, page_url, repository_json
from simulators.github.world import World

Json = dict[str, Any]
WORST = ("success", "neutral", "skipped", "cancelled", "action_required", "timed_out", "failure")


def pulls_of_head(world: World, repository: Repository, sha: str) -> list[Json]:
    """Open pull requests whose head this is."""
    return [
        pull_minimal_json(world, repository, issue, pull)
        for issue, pull in world.pulls(repository)
        if pull.head_sha == sha and issue.state == "open" and pull.head_repo_id == repository.id
    ]


def suite_runs(repository: Repository, suite: CheckSuite) -> list[CheckRun]:
    """Check runs of a suite, oldest first."""
    return [run for run in repository.check_runs.values() if run.suite_id == suite.id]


def suite_state(repository: Repository, suite: CheckSuite) -> tuple[str, str | None]:
    """Status and conclusion of a suite, from its runs."""
    runs = suite_runs(repository, suite)
    if not runs:
        return "queued", None
    if any(run.status != "completed" for run in runs):
        return "in_progress", None
    return "completed", max((run.conclusion or "neutral" for run in runs), key=WORST.index)


def suite_json(world: World, repository: Repository, suite: CheckSuite) -> Json:
    """A check suite."""
    status, conclusion = suite_state(repository, suite)
    url = f"{api_url(world, repository)}/check-suites/{suite.id}"
    return {
        "id": suite.id,
        "node_id": node_id("CheckSuite", suite.id),
        "head_branch": suite.head_branch,
        "head_sha": suite.head_sha,
        "status": status,
        "conclusion": conclusion,
        "url": url,
        "before": suite.before,
        "after": suite.head_sha,
        "pull_requests": pulls_of_head(world, repository, suite.head_sha),
        "app": app_json(world, world.apps[suite.app_id]),
        "created_at": iso(suite.created_at),
        "updated_at": iso(suite.updated_at),
        "rerequestable": True,
        "runs_rerequestable": True,
        "latest_check_runs_count": len(suite_runs(repository, suite)),
        "check_runs_url": f"{url}/check-runs",
        "head_commit": simple_commit_json(repository, suite.head_sha),
    }


def suite_with_repository_json(world: World, repository: Repository, suite: CheckSuite) -> Json:
    """As REST shows a suite."""
    return {**suite_json(world, repository, suite), "repository": repository_json(world, repository)}


def check_run_json(world: World, repository: Repository, run: CheckRun) -> Json:
    """A check run as REST shows it."""
    url = f"{api_url(world, repository)}/check-runs/{run.id}"
    page = f"{page_url(world, repository)}/runs/{run.id}"
    return {
        "id": run.id,
        "node_id": node_id("CheckRun", run.id),
        "head_sha": run.head_sha,
        "external_id": run.external_id or "",
        "url": url,
        "html_url": page,
        "details_url": run.details_url or page,
        "status": run.status,
        "conclusion": run.conclusion,
        "started_at": iso(run.started_at),
        "completed_at": iso_or_none(run.completed_at),
        "output": {
            "title": run.title,
            "summary": run.summary,
            "text": run.text,
            "annotations_count": len(run.annotations),
            "annotations_url": f"{url}/annotations",
        },
        "name": run.name,
        "check_suite": {"id": run.suite_id},
        "app": app_json(world, world.apps[run.app_id]),
        "pull_requests": pulls_of_head(world, repository, run.head_sha),
    }


def check_run_event_json(world: World, repository: Repository, run: CheckRun) -> Json:
    """A check run as webhooks show it: the suite is there in full."""
    suite = world.suite(repository, run.suite_id)
    return {**check_run_json(world, repository, run), "check_suite": suite_json(world, repository, suite)}


def annotation_json(world: World, repository: Repository, run: CheckRun, given: Json) -> Json:
    """One annotation with every field present."""
    fields = ("path", "start_line", "end_line", "start_column", "end_column", "annotation_level", "title")
    page = f"{page_url(world, repository)}/blob/{run.head_sha}/{given['path']}"
    texts = {name: given.get(name) for name in ("message", "raw_details")}
    return {**{name: given.get(name) for name in fields}, **texts, "blob_href": page}


def workflow_run_json(world: World, repository: Repository, run: WorkflowRun) -> Json:
    """A GitHub Actions run."""
    api = api_url(world, repository)
    url = f"{api}/actions/runs/{run.id}"
    workflow_id = run.suite_id + 1
    actor = user_json(world, repository.owner_id)
    return {
        "id": run.id,
        "name": run.name,
        "node_id": node_id("WorkflowRun", run.id),
        "check_suite_id": run.suite_id,
        "check_suite_node_id": node_id("CheckSuite", run.suite_id),
        "head_branch": run.head_branch,
        "head_sha": run.head_sha,
        "path": run.path,
        "run_number": run.number,
        "run_attempt": 1,
        "event": run.event,
        "display_title": run.name,
        "status": run.status,
        "conclusion": run.conclusion,
        "workflow_id": workflow_id,
        "url": url,
        "html_url": f"{page_url(world, repository)}/actions/runs/{run.id}",
        "pull_requests": pulls_of_head(world, repository, run.head_sha),
        "created_at": iso(run.created_at),
        "updated_at": iso(run.updated_at),
        "run_started_at": iso(run.created_at),
        "actor": actor,
        "triggering_actor": actor,
        "jobs_url": f"{url}/jobs",
        "logs_url": f"{url}/logs",
        "check_suite_url": f"{api}/check-suites/{run.suite_id}",
        "artifacts_url": f"{url}/artifacts",
        "cancel_url": f"{url}/cancel",
        "rerun_url": f"{url}/rerun",
        "previous_attempt_url": None,
        "workflow_url": f"{api}/actions/workflows/{workflow_id}",
        "referenced_workflows": [],
        "head_commit": simple_commit_json(repository, run.head_sha),
        "repository": repository_json(world, repository),
        "head_repository": repository_json(world, repository),
    }


def job_json(world: World, repository: Repository, run: WorkflowRun, job: Job) -> Json:
    """One job of a run."""
    api = api_url(world, repository)
    done = job.status == "completed"
    return {
        "id": job.id,
        "run_id": run.id,
        "run_url": f"{api}/actions/runs/{run.id}",
        "run_attempt": 1,
        "node_id": node_id("CheckRun", job.check_run_id),
        "head_sha": run.head_sha,
        "head_branch": run.head_branch,
        "url": f"{api}/actions/jobs/{job.id}",
        "html_url": f"{page_url(world, repository)}/runs/{job.check_run_id}",
        "status": job.status,
        "conclusion": job.conclusion,
        "created_at": iso(run.created_at),
        "started_at": iso(run.created_at),
        "completed_at": iso(run.updated_at) if done else None,
        "name": job.name,
        "steps": [],
        "check_run_url": f"{api}/check-runs/{job.check_run_id}",
        "labels": ["ubuntu-latest"],
        "runner_id": None,
        "runner_name": None,
        "runner_group_id": None,
        "runner_group_name": None,
        "workflow_name": run.name,
    }
