"""How control actions are declared, and what they work on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulators.github.faults import Faults
from simulators.github.journal import Journal
from simulators.github.limits import Limits
from simulators.github.model import Issue, Pull, Repository, User
from simulators.github.platform import Platform
from simulators.github.shapes.accounts import account_json, app_json, installation_json
from simulators.github.shapes.checks import check_run_json
from simulators.github.shapes.issues import comment_json, issue_json, reaction_json
from simulators.github.shapes.pulls import pull_json, review_comment_json, review_json
from simulators.github.shapes.repositories import repository_json
from simulators.github.world import World

Json = dict[str, Any]
Action = Callable[..., Any]
ACTIONS: dict[str, Action] = {}


@dataclass(frozen=True)
class Simulation:
    """Everything a control action may reach."""

    platform: Platform
    faults: Faults
    journal: Journal
    limits: Limits

    @property
    def world(self) -> World:
        """All state."""
        return self.platform.world

    def issue(self, repo: str, number: int) -> tuple[Repository, Issue]:
        """Repository and issue by names; LookupError."""
        repository = self.world.repository(repo)
        return repository, self.world.issue(repository, number)

    def pull(self, repo: str, number: int) -> tuple[Repository, Issue, Pull]:
        """Repository and pull request by names; LookupError."""
        repository = self.world.repository(repo)
        return repository, *self.world.pull(repository, number)

    def actor(self, login: str) -> User:
        """Who acts; LookupError."""
        return self.world.user(login)

    def state(self) -> Json:
        """All of the visible state as GitHub's JSON."""
        world = self.world
        return {
            "users": [account_json(world, user) for user in world.users.values()],
            "apps": [app_json(world, app) for app in world.apps.values()],
            "installations": [
                installation_json(world, one) for one in world.installations.values() if not one.deleted
            ],
            "repositories": [self._repository(one) for one in world.repositories.values() if not one.deleted],
        }

    def repository_state(self, full_name: str) -> Json:
        """One repository of the state; LookupError."""
        return self._repository(self.world.repository(full_name))

    def refs(self, full_name: str) -> Json:
        """SHAs by ref; LookupError."""
        return dict(self.world.repository(full_name).git.refs("refs/"))

    def check_runs(self, full_name: str) -> list[Json]:
        """Oldest first, with what can be asked for (``actions``); LookupError."""
        return self._check_runs(self.world.repository(full_name))

    def issue_state(self, full_name: str, number: int) -> Json:
        """One issue of the state; LookupError."""
        repository, issue = self.issue(full_name, number)
        return self._issue(repository, issue)

    def _repository(self, repository: Repository) -> Json:
        world = self.world
        return {
            **repository_json(world, repository),
            "path": str(repository.git.path),
            "refs": repository.git.refs("refs/"),
            "issues": [
                self._issue(repository, issue) for issue in repository.issues.values() if not issue.deleted
            ],
            "check_runs": self._check_runs(repository),
        }

    def _check_runs(self, repository: Repository) -> list[Json]:
        return [
            {**check_run_json(self.world, repository, run), "actions": run.actions}
            for run in repository.check_runs.values()
        ]

    def _issue(self, repository: Repository, issue: Issue) -> Json:
        world = self.world
        shape: Json = {
            **issue_json(world, repository, issue),
            "parent_number": issue.parent_number,
            "reaction_list": [reaction_json(world, one) for one in issue.reactions],
            "comment_list": [
                {
                    **comment_json(world, one),
                    "reaction_list": [reaction_json(world, r) for r in one.reactions],
                }
                for one in issue.comments
            ],
        }
        if issue.pull:
            shape["pull"] = pull_json(world, repository, issue, issue.pull)
            shape["reviews"] = [
                {**review_json(world, one), "reaction_list": [reaction_json(world, r) for r in one.reactions]}
                for one in issue.pull.reviews
            ]
            shape["review_comments"] = [
                {
                    **review_comment_json(world, one),
                    "thread_id": one.thread_id,
                    "reaction_list": [reaction_json(world, r) for r in one.reactions],
                    "resolved": (t := world.threads.get(one.thread_id)) is not None
                    and t.resolved_by is not None,
                }
                for one in issue.pull.comments
            ]
        return shape


def control(name: str) -> Callable[[Action], Action]:
    """Registers an action under ``AREA/VERB``; its parameters are the JSON arguments."""

    def register(function: Action) -> Action:
        ACTIONS[name] = function
        return function

    return register
