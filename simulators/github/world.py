"""All state of the simulated GitHub, in memory, with the look-ups everything else uses."""

import itertools
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from simulators.github.clock import Clock
from simulators.github.model import (
    ROLES,
    App,
    CheckRun,
    CheckSuite,
    Comment,
    Installation,
    Issue,
    Pull,
    Repository,
    Review,
    ReviewComment,
    Thread,
    Token,
    User,
)

# role_name → the coarser word that `permission` carries
COARSE = {
    "none": "none",
    "read": "read",
    "triage": "read",
    "write": "write",
    "maintain": "write",
    "admin": "admin",
}


class World:
    """Users, Apps, installations and repositories by id; names only lead to ids."""

    def __init__(self, directory: Path, base_url: str) -> None:
        self.directory = directory
        self.base_url = base_url.rstrip("/")
        self.clock = Clock()
        self.users: dict[int, User] = {}
        self.apps: dict[int, App] = {}
        self.installations: dict[int, Installation] = {}
        self.repositories: dict[int, Repository] = {}
        self.tokens: dict[str, Token] = {}
        self.former_names: dict[tuple[str, str], int] = {}
        self.manifest_codes: dict[str, int] = {}
        self.comments: dict[int, Comment] = {}
        self.review_comments: dict[int, ReviewComment] = {}
        self.reviews: dict[int, Review] = {}
        self.threads: dict[int, Thread] = {}
        self.token_length = 520
        self._ids = itertools.count(1_000_000_001, 7)

    def new_id(self) -> int:
        """An id never used for anything else here."""
        return next(self._ids)

    def now(self) -> datetime:
        """The simulated time."""
        return self.clock.now()

    # people

    def find_user(self, login: str) -> User | None:
        """By login, in any case."""
        wanted = login.lower()
        return next((user for user in self.users.values() if user.login.lower() == wanted), None)

    def user(self, login: str) -> User:
        """By login; raises LookupError."""
        user = self.find_user(login)
        if user is None:
            raise LookupError(f"no user {login}")
        return user

    def role(self, repository: Repository, user: User) -> str:
        """``role_name`` of a user on a repository."""
        owner = self.users[repository.owner_id]
        granted = "read" if not repository.private else "none"
        if user.id == owner.id or owner.members.get(user.id) == "admin":
            granted = "admin"
        direct = repository.collaborators.get(user.id, "none")
        return max(granted, direct, key=ROLES.index)

    def association(self, repository: Repository, user_id: int | None) -> str:
        """``author_association`` of somebody on a repository."""
        owner = self.users[repository.owner_id]
        if user_id == owner.id:
            return "OWNER"
        if user_id in owner.members:
            return "MEMBER"
        if user_id in repository.collaborators:
            return "COLLABORATOR"
        return "NONE"

    # repositories

    def full_name(self, repository: Repository) -> str:
        """``owner/name``."""
        return f"{self.users[repository.owner_id].login}/{repository.name}"

    def find_repository(self, owner: str, name: str) -> Repository | None:
        """By its present name, in any case."""
        wanted = f"{owner}/{name}".lower()
        live = (found for found in self.repositories.values() if not found.deleted)
        return next((found for found in live if self.full_name(found).lower() == wanted), None)

    def find_moved(self, owner: str, name: str) -> Repository | None:
        """By a name it had before."""
        found = self.repositories.get(self.former_names.get((owner.lower(), name.lower()), 0))
        return found if found is not None and not found.deleted else None

    def repository(self, full_name: str) -> Repository:
        """By present name; raises LookupError."""
        owner, _, name = full_name.partition("/")
        found = self.find_repository(owner, name)
        if found is None:
            raise LookupError(f"no repository {full_name}")
        return found

    def issue(self, repository: Repository, number: int) -> Issue:
        """A live issue or pull request; raises LookupError."""
        issue = repository.issues.get(number)
        if issue is None or issue.deleted:
            raise LookupError(f"no issue {number} in {self.full_name(repository)}")
        return issue

    def pull(self, repository: Repository, number: int) -> tuple[Issue, Pull]:
        """A pull request's two halves; raises LookupError."""
        issue = self.issue(repository, number)
        if issue.pull is None:
            raise LookupError(f"{number} is not a pull request")
        return issue, issue.pull

    def pulls(self, repository: Repository) -> Iterator[tuple[Issue, Pull]]:
        """All pull requests of a repository, oldest first."""
        for issue in repository.issues.values():
            if issue.pull is not None and not issue.deleted:
                yield issue, issue.pull

    def find_check(self, check_id: int) -> CheckRun | None:
        """A check run of any repository."""
        for repository in self.repositories.values():
            if check_id in repository.check_runs:
                return repository.check_runs[check_id]
        return None

    def suite(self, repository: Repository, suite_id: int) -> CheckSuite:
        """A check suite; raises LookupError."""
        for suite in repository.suites:
            if suite.id == suite_id:
                return suite
        raise LookupError(f"no check suite {suite_id}")

    # apps

    def bot_app(self, user: User) -> App | None:
        """The App whose bot this user is."""
        return None if user.app_id is None else self.apps.get(user.app_id)

    def installed_repositories(self, installation: Installation) -> list[Repository]:
        """Repositories an installation can see."""
        return [
            found
            for found in self.repositories.values()
            if found.owner_id == installation.account_id
            and not found.deleted
            and (installation.selection == "all" or found.id in installation.repo_ids)
        ]

    def installations_on(self, repository: Repository) -> list[Installation]:
        """Live installations that can see a repository (suspended ones included)."""
        return [
            found
            for found in self.installations.values()
            if not found.deleted
            and found.account_id == repository.owner_id
            and (found.selection == "all" or repository.id in found.repo_ids)
        ]

    def summary(self) -> dict[str, Any]:
        """Sizes, for the state dump."""
        return {
            "users": len(self.users),
            "apps": len(self.apps),
            "installations": len(self.installations),
            "repositories": len(self.repositories),
        }
