"""Other Apps' checks, workflow runs, and the buttons people press on checks."""

from typing import Any

from simulators.github.actions import checks as actions
from simulators.github.control_api.registry import Json, Simulation, control
from simulators.github.model import CheckRun, Repository
from simulators.github.shapes.checks import check_run_json, suite_with_repository_json, workflow_run_json


def find(sim: Simulation, check_id: int) -> tuple[Repository, CheckRun]:
    """A check run by id; LookupError."""
    run = sim.world.find_check(check_id)
    if run is None:
        raise LookupError(f"no check run {check_id}")
    return sim.world.repositories[run.repo_id], run


@control("checks/create")
def create(
    sim: Simulation,
    repo: str,
    app_id: int,
    name: str,
    sha: str,
    conclusion: str | None = None,
    title: str | None = None,
    summary: str | None = None,
    annotations: list[dict[str, Any]] | None = None,
) -> Json:
    """A check run of some App on a commit; with ``conclusion`` it completes at once."""
    repository, app = sim.world.repository(repo), sim.world.apps[app_id]
    run = actions.create_check(sim.platform, repository, app, name, sha)
    run.status, run.title, run.summary, run.annotations = "in_progress", title, summary, annotations or []
    actions.emit_check(sim.platform, repository, run, sim.world.users[app.bot_id], "created")
    if conclusion is not None:
        run.status, run.conclusion, run.completed_at = "completed", conclusion, sim.world.now()
        actions.conclude_check(sim.platform, repository, run, sim.world.users[app.bot_id])
    return check_run_json(sim.world, repository, run)


@control("checks/conclude")
def conclude(sim: Simulation, check_id: int, conclusion: str) -> Json:
    """Completes a check run."""
    repository, run = find(sim, check_id)
    run.status, run.conclusion, run.completed_at = "completed", conclusion, sim.world.now()
    bot = sim.world.users[sim.world.apps[run.app_id].bot_id]
    actions.conclude_check(sim.platform, repository, run, bot)
    return check_run_json(sim.world, repository, run)


@control("checks/press")
def press(sim: Simulation, check_id: int, by: str, identifier: str) -> Json:
    """Somebody presses a button of a check run: ``check_run.requested_action``."""
    repository, run = find(sim, check_id)
    extra = {"requested_action": {"identifier": identifier}}
    actions.emit_check(sim.platform, repository, run, sim.actor(by), "requested_action", extra)
    return check_run_json(sim.world, repository, run)


@control("checks/rerun")
def rerun(sim: Simulation, check_id: int, by: str) -> Json:
    """Somebody presses GitHub's own re-run on a check run."""
    repository, run = find(sim, check_id)
    actions.emit_check(sim.platform, repository, run, sim.actor(by), "rerequested")
    return check_run_json(sim.world, repository, run)


@control("suites/rerun")
def rerun_suite(sim: Simulation, repo: str, suite_id: int, by: str) -> Json:
    """Somebody re-runs a whole suite: ``check_suite.rerequested``."""
    repository = sim.world.repository(repo)
    suite = sim.world.suite(repository, suite_id)
    actions.emit_suite(sim.platform, repository, suite, sim.actor(by), "rerequested")
    return suite_with_repository_json(sim.world, repository, suite)


@control("runs/create")
def workflow_run(
    sim: Simulation,
    repo: str,
    app_id: int,
    by: str,
    name: str,
    branch: str,
    conclusion: str | None = "success",
    jobs: list[dict[str, Any]] | None = None,
) -> Json:
    """A workflow run of App ``app_id`` on a branch's head; jobs: name, conclusion, log, annotations."""
    repository = sim.world.repository(repo)
    sha = repository.git.find_ref(f"refs/heads/{branch}")
    if sha is None:
        raise LookupError(f"no branch {branch}")
    chosen = jobs or [{"name": "build"}]
    app = sim.world.apps[app_id]
    run = actions.add_workflow_run(
        sim.platform, repository, app, sim.actor(by), name, branch, sha, conclusion, chosen
    )
    return workflow_run_json(sim.world, repository, run)
