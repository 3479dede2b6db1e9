"""Check runs."""

from datetime import datetime
from typing import Any

from simulators.github.actions import checks as actions
from simulators.github.errors import ApiError, forbidden, not_found, unprocessable, validation
from simulators.github.git import SHA
from simulators.github.model import CheckRun
from simulators.github.rest.routing import Call, Json, created, route
from simulators.github.shapes.checks import annotation_json, check_run_json

READ, WRITE = "checks:read", "checks:write"
STATUSES = ("queued", "in_progress", "completed", "waiting", "requested", "pending")
CONCLUSIONS = ("action_required", "cancelled", "failure", "neutral", "success", "skipped", "timed_out")
MAX_TEXT = 65_535
MAX_ANNOTATIONS = 50
ACTION_LIMITS = {"label": 20, "description": 40, "identifier": 20}


def check_of(call: Call) -> CheckRun:
    """Run ``{check_id}``, or 404."""
    run = call.repository.check_runs.get(call.number("check_id"))
    if run is None:
        raise not_found()
    return run


def read_output(call: Call) -> dict[str, Any] | None:
    """``output`` with GitHub's limits; None when absent."""
    output = call.payload.get("output")
    if output is None:
        return None
    if not isinstance(output, dict) or not isinstance(output.get("summary"), str):
        raise unprocessable('Invalid request.\n\n"summary" wasn\'t supplied.')
    for name in ("summary", "text"):
        if len(output.get(name) or "") > MAX_TEXT:
            raise unprocessable(
                f"Invalid request.\n\nOnly {MAX_TEXT} characters are allowed; {len(output[name])} were supplied."
            )
    annotations = output.get("annotations") or []
    if len(annotations) > MAX_ANNOTATIONS:
        raise unprocessable(
            f"Invalid request.\n\nNo more than {MAX_ANNOTATIONS} items are allowed; {len(annotations)} were supplied."
        )
    for entry in annotations:
        if not {"path", "start_line", "end_line", "annotation_level", "message"} <= set(entry):
            raise unprocessable("Invalid request.\n\nAn annotation lacks a required field.")
    return output


def read_actions(call: Call) -> list[dict[str, str]] | None:
    """``actions``: at most three, with short texts; None when absent."""
    given = call.payload.get("actions")
    if given is None:
        return None
    if len(given) > 3:
        raise unprocessable(
            f"Invalid request.\n\nNo more than 3 items are allowed; {len(given)} were supplied."
        )
    for action in given:
        for name, limit in ACTION_LIMITS.items():
            if not isinstance(action.get(name), str) or not 0 < len(action[name]) <= limit:
                raise unprocessable(
                    f"Invalid request.\n\nFor 'actions/{name}', only {limit} characters are allowed."
                )
    return list(given)


def read_time(call: Call, name: str) -> datetime | None:
    """An ISO time of the body; 422 for something else."""
    text = call.text(name)
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise unprocessable(f"Invalid request.\n\n{text} is not a date-time.") from None


def apply(call: Call, run: CheckRun) -> bool:
    """Puts the body's fields into a run; whether it completed by that."""
    output, buttons = read_output(call), read_actions(call)
    status, conclusion = call.text("status"), call.text("conclusion")
    if status not in (None, *STATUSES) or conclusion not in (None, *CONCLUSIONS):
        raise unprocessable("Invalid request.\n\nIt is not a possible value.")
    if status == "completed" and conclusion is None and run.conclusion is None:
        raise validation("CheckRun", "conclusion", "missing_field")
    started, completed = read_time(call, "started_at"), read_time(call, "completed_at")
    was_completed = run.status == "completed"
    run.name = call.text("name", run.name) or run.name
    run.external_id = call.text("external_id", run.external_id)
    run.details_url = call.text("details_url", run.details_url)
    run.started_at = started or run.started_at
    run.actions = run.actions if buttons is None else buttons
    if output is not None:
        run.title, run.summary = output.get("title", run.title), output["summary"]
        run.text = output.get("text", run.text)
        run.annotations += output.get("annotations") or []
    if conclusion is not None:
        run.status, run.conclusion = "completed", conclusion
        run.completed_at = completed or call.world.now()
    elif status is not None:
        run.status = status
        if status != "completed":
            run.conclusion = run.completed_at = None
    return run.status == "completed" and not was_completed


@route("POST", "/repos/{owner}/{repo}/check-runs", WRITE)
def create_check_run(call: Call) -> Json:
    """A new run of the App on a commit."""
    name, sha = call.required("name"), call.required("head_sha")
    if not SHA.fullmatch(sha) or call.repository.git.kind(sha) != "commit":
        raise unprocessable(f"No commit found for SHA: {sha}")
    read_output(call)
    read_actions(call)
    run = actions.create_check(call.platform, call.repository, call.caller.app, name, sha)
    try:
        completed = apply(call, run)
    except ApiError:
        del call.repository.check_runs[run.id]
        raise
    actions.emit_check(call.platform, call.repository, run, call.actor, "created")
    if completed:
        actions.conclude_check(call.platform, call.repository, run, call.actor)
    shape = check_run_json(call.world, call.repository, run)
    return created(shape, shape["url"])


@route("GET", "/repos/{owner}/{repo}/check-runs/{check_id:int}", READ)
def get_check_run(call: Call) -> Json:
    """One run."""
    return check_run_json(call.world, call.repository, check_of(call))


@route("PATCH", "/repos/{owner}/{repo}/check-runs/{check_id:int}", WRITE)
def update_check_run(call: Call) -> Json:
    """Changes a run; only the App that made it may."""
    run = check_of(call)
    if run.app_id != call.caller.app.id:
        error = forbidden()
        error.message = f"Invalid app_id `{call.caller.app.id}` - check run can only be modified by the GitHub App that created it."
        raise error
    if apply(call, run):
        actions.conclude_check(call.platform, call.repository, run, call.actor)
    return check_run_json(call.world, call.repository, run)


@route("GET", "/repos/{owner}/{repo}/check-runs/{check_id:int}/annotations", READ)
def list_annotations(call: Call) -> Json:
    """Annotations of a run."""
    run = check_of(call)
    return [annotation_json(call.world, call.repository, run, entry) for entry in call.page(run.annotations)]


def matching(call: Call, runs: list[CheckRun]) -> Json:
    """A list of runs narrowed by ``check_name``, ``status``, ``app_id`` and (by default) to the latest of a name."""
    name, status, app_id = call.query.get("check_name"), call.query.get("status"), call.query.get("app_id")
    found = [run for run in runs if name in (None, run.name) and status in (None, run.status)]
    found = [run for run in found if app_id in (None, str(run.app_id))]
    if call.query.get("filter", "latest") == "latest":
        found = list({(run.suite_id, run.name): run for run in found}.values())
    found.reverse()
    shown = [check_run_json(call.world, call.repository, run) for run in call.page(found)]
    return {"total_count": len(found), "check_runs": shown}


@route("GET", "/repos/{owner}/{repo}/commits/{ref:path}/check-runs", READ)
def list_check_runs(call: Call) -> Json:
    """Runs on a commit."""
    sha = call.repository.git.find_commit_sha(call.params["ref"])
    if sha is None:
        raise unprocessable(f"No commit found for SHA: {call.params['ref']}")
    return matching(call, [run for run in call.repository.check_runs.values() if run.head_sha == sha])


@route("GET", "/repos/{owner}/{repo}/check-suites/{suite_id:int}/check-runs", READ)
def list_suite_runs(call: Call) -> Json:
    """Runs of a suite."""
    runs = call.repository.check_runs.values()
    return matching(call, [run for run in runs if run.suite_id == call.number("suite_id")])
