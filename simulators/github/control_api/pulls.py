"""What people do to pull requests."""

from simulators.github.actions import merging, pulls as actions
from simulators.github.actions.refs import move_ref
from simulators.github.control_api.registry import Json, Simulation, control
from simulators.github.git import ZERO
from simulators.github.shapes.pulls import pull_json


def shown(sim: Simulation, repo: str, number: int) -> Json:
    """The pull request after the change."""
    return pull_json(sim.world, *sim.pull(repo, number))


@control("pulls/open")
def open_pull(
    sim: Simulation,
    repo: str,
    by: str,
    title: str,
    head: str,
    base: str | None = None,
    body: str | None = None,
    draft: bool = False,
    head_repo: str | None = None,
) -> Json:
    """Opens one; ``head_repo`` (full name) for one from a fork."""
    repository = sim.world.repository(repo)
    source = sim.world.repository(head_repo) if head_repo else repository
    issue = actions.open_pull(
        sim.platform,
        repository,
        sim.actor(by),
        title,
        body,
        (source, head),
        base or repository.default_branch,
        draft=draft,
    )
    return shown(sim, repo, issue.number)


@control("pulls/state")
def set_state(sim: Simulation, repo: str, number: int, by: str, state: str) -> Json:
    """Closes without merging (``closed``) or reopens (``open``)."""
    repository, issue, _ = sim.pull(repo, number)
    change = actions.close_pull if state == "closed" else actions.reopen_pull
    change(sim.platform, repository, issue, sim.actor(by))
    return shown(sim, repo, number)


@control("pulls/merge")
def merge(
    sim: Simulation, repo: str, number: int, by: str, method: str = "merge", delete_branch: bool = False
) -> Json:
    """Merges (``merge`` or ``squash``); may delete the branch after."""
    repository, issue, pull = sim.pull(repo, number)
    merging.merge_pull(sim.platform, repository, issue, sim.actor(by), method=method)
    source = sim.world.repositories.get(pull.head_repo_id or 0)
    if delete_branch and source is not None:
        move_ref(sim.platform, source, f"refs/heads/{pull.head_ref}", ZERO, sim.actor(by))
    return shown(sim, repo, number)


@control("pulls/update_branch")
def update_branch(sim: Simulation, repo: str, number: int, by: str) -> Json:
    """Merges the base branch into the head."""
    repository, issue, _ = sim.pull(repo, number)
    merging.update_branch(sim.platform, repository, issue, sim.actor(by))
    return shown(sim, repo, number)


@control("pulls/draft")
def set_draft(sim: Simulation, repo: str, number: int, by: str, draft: bool) -> Json:
    """Draft or ready for review."""
    repository, issue, _ = sim.pull(repo, number)
    actions.set_draft(sim.platform, repository, issue, sim.actor(by), draft)
    return shown(sim, repo, number)


@control("pulls/retarget")
def retarget(sim: Simulation, repo: str, number: int, by: str, base: str) -> Json:
    """Another base branch."""
    repository, issue, _ = sim.pull(repo, number)
    actions.retarget(sim.platform, repository, issue, sim.actor(by), base)
    return shown(sim, repo, number)


@control("pulls/lose_head")
def lose_head(sim: Simulation, repo: str, number: int) -> Json:
    """The fork a pull request came from is gone: ``head.repo`` is null."""
    sim.pull(repo, number)[2].head_repo_id = None
    return shown(sim, repo, number)
