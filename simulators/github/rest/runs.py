"""GitHub Actions: runs, jobs, logs."""

from simulators.github.errors import not_found
from simulators.github.model import Job, WorkflowRun
from simulators.github.rest.routing import Call, Json, Reply, created, route
from simulators.github.shapes.checks import job_json, workflow_run_json

READ = "actions:read"


def run_of(call: Call) -> WorkflowRun:
    """Run ``{run_id}``, or 404."""
    run = call.repository.workflow_runs.get(call.number("run_id"))
    if run is None:
        raise not_found()
    return run


def job_of(call: Call) -> tuple[WorkflowRun, Job]:
    """Job ``{job_id}`` with its run, or 404."""
    for run in call.repository.workflow_runs.values():
        for job in run.jobs:
            if job.id == call.number("job_id"):
                return run, job
    raise not_found()


@route("GET", "/repos/{owner}/{repo}/actions/runs", READ)
def list_runs(call: Call) -> Json:
    """Runs, newest first; ``branch``, ``head_sha``, ``status`` (also a conclusion), ``check_suite_id``."""
    query = call.query
    found = [
        run
        for run in reversed(call.repository.workflow_runs.values())
        if query.get("branch") in (None, run.head_branch)
        and query.get("head_sha") in (None, run.head_sha)
        and query.get("status") in (None, run.status, run.conclusion)
        and query.get("check_suite_id") in (None, str(run.suite_id))
    ]
    shown = [workflow_run_json(call.world, call.repository, run) for run in call.page(found)]
    return {"total_count": len(found), "workflow_runs": shown}


@route("GET", "/repos/{owner}/{repo}/actions/runs/{run_id:int}", READ)
def get_run(call: Call) -> Json:
    """One run."""
    return workflow_run_json(call.world, call.repository, run_of(call))


@route("GET", "/repos/{owner}/{repo}/actions/runs/{run_id:int}/jobs", READ)
def list_jobs(call: Call) -> Json:
    """Jobs of a run."""
    run = run_of(call)
    shown = [job_json(call.world, call.repository, run, job) for job in call.page(run.jobs)]
    return {"total_count": len(run.jobs), "jobs": shown}


@route("GET", "/repos/{owner}/{repo}/actions/jobs/{job_id:int}", READ)
def get_job(call: Call) -> Json:
    """One job."""
    return job_json(call.world, call.repository, *job_of(call))


@route("GET", "/repos/{owner}/{repo}/actions/jobs/{job_id:int}/logs", READ)
def get_job_log(call: Call) -> Reply:
    """302 to the log's text, as on GitHub."""
    _, job = job_of(call)
    return Reply(None, 302, {"Location": f"{call.world.base_url}/_static/logs/{call.repository.id}/{job.id}"})


@route("POST", "/repos/{owner}/{repo}/actions/runs/{run_id:int}/rerun", "actions:write")
@route("POST", "/repos/{owner}/{repo}/actions/runs/{run_id:int}/rerun-failed-jobs", "actions:write")
def rerun(call: Call) -> Json:
    """Accepts a request to run again; nothing runs here."""
    run_of(call)
    return created({})
