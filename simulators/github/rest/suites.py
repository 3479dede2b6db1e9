"""Check suites and the combined status."""

from simulators.github.actions import checks as actions
from simulators.github.errors import not_found, unprocessable
from simulators.github.model import CheckSuite
from simulators.github.rest.routing import Call, Json, created, route
from simulators.github.shapes.checks import suite_with_repository_json
from simulators.github.shapes.repositories import api_url, repository_json


def suite_of(call: Call) -> CheckSuite:
    """Suite ``{suite_id}``, or 404."""
    try:
        return call.world.suite(call.repository, call.number("suite_id"))
    except LookupError:
        raise not_found() from None


@route("GET", "/repos/{owner}/{repo}/check-suites/{suite_id:int}", "checks:read")
def get_suite(call: Call) -> Json:
    """One suite."""
    return suite_with_repository_json(call.world, call.repository, suite_of(call))


@route("POST", "/repos/{owner}/{repo}/check-suites/{suite_id:int}/rerequest", "checks:write")
def rerequest_suite(call: Call) -> Json:
    """Asks the App that owns the suite to run again."""
    actions.emit_suite(call.platform, call.repository, suite_of(call), call.actor, "rerequested")
    return created({})


@route("POST", "/repos/{owner}/{repo}/check-runs/{check_id:int}/rerequest", "checks:write")
def rerequest_run(call: Call) -> Json:
    """Asks the App that owns the run to run again."""
    run = call.repository.check_runs.get(call.number("check_id"))
    if run is None:
        raise not_found()
    actions.emit_check(call.platform, call.repository, run, call.actor, "rerequested")
    return created({})


@route("GET", "/repos/{owner}/{repo}/commits/{ref:path}/check-suites", "checks:read")
def list_suites(call: Call) -> Json:
    """Suites on a commit."""
    sha = call.repository.git.find_commit_sha(call.params["ref"])
    if sha is None:
        raise unprocessable(f"No commit found for SHA: {call.params['ref']}")
    app_id = call.query.get("app_id")
    found = [suite for suite in call.repository.suites if suite.head_sha == sha]
    found = [suite for suite in found if app_id in (None, str(suite.app_id))]
    shown = [suite_with_repository_json(call.world, call.repository, suite) for suite in call.page(found)]
    return {"total_count": len(found), "check_suites": shown}


@route("GET", "/repos/{owner}/{repo}/commits/{ref:path}/status", "statuses:read")
def combined_status(call: Call) -> Json:
    """The older status API: nothing reports through it here, so it is always pending and empty."""
    sha = call.repository.git.find_commit_sha(call.params["ref"])
    if sha is None:
        raise not_found()
    api = api_url(call.world, call.repository)
    return {
        "state": "pending",
        "statuses": [],
        "sha": sha,
        "total_count": 0,
        "repository": repository_json(call.world, call.repository),
        "commit_url": f"{api}/commits/{sha}",
        "url": f"{api}/commits/{sha}/status",
    }
