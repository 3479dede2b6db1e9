"""Control: accounts, Apps, installations, repositories, branches."""

from collections.abc import Mapping, Sequence
from typing import Any

from simulators.github.control_client import ControlClient, Json


class SetupControl(ControlClient):
    """Makes and changes what must exist before anything happens."""

    def create_user(self, login: str, user_id: int | None = None) -> Json:
        """A person."""
        return self.do("users/create", login=login, user_id=user_id)

    def create_org(self, login: str, owners: Sequence[str], members: Sequence[str] = ()) -> Json:
        """An organization."""
        return self.do("orgs/create", login=login, owners=list(owners), members=list(members))

    def create_app(
        self,
        name: str,
        owner: str,
        permissions: Mapping[str, str],
        events: Sequence[str],
        *,
        webhook_url: str | None = None,
        webhook_secret: str | None = None,
        public_key: str | None = None,
    ) -> Json:
        """A GitHub App; the answer has ``id``, ``slug``, ``client_id``, ``bot`` and, when it made the key, ``pem``."""
        return self.do(
            "apps/create",
            name=name,
            owner=owner,
            permissions=dict(permissions),
            events=list(events),
            webhook_url=webhook_url,
            webhook_secret=webhook_secret,
            public_key=public_key,
        )

    def update_app(self, app_id: int, **fields: Any) -> Json:
        """Changes webhook_url, webhook_secret, public_key_pem, permissions, events, webhook_active; ``ping=True``."""
        return self.do("apps/update", app_id=app_id, **fields)

    def delete_app(self, app_id: int) -> Json:
        """Removes an App."""
        return self.do("apps/delete", app_id=app_id)

    def revoke_authorization(self, app_id: int, by: str) -> Json:
        """``github_app_authorization.revoked``."""
        return self.do("apps/authorization", app_id=app_id, by=by)

    # installations

    def install(
        self, app_id: int, account: str, repos: Sequence[str] | None = None, by: str | None = None
    ) -> Json:
        """Installs an App on an account, on all repositories or on ``repos`` (``owner/name``)."""
        chosen = None if repos is None else list(repos)
        return self.do("installations/create", app_id=app_id, account=account, repos=chosen, by=by)

    def suspend(self, installation_id: int, by: str) -> Json:
        """Suspends."""
        return self.do("installations/suspend", installation_id=installation_id, by=by)

    def unsuspend(self, installation_id: int, by: str) -> Json:
        """Ends a suspension."""
        return self.do("installations/suspend", installation_id=installation_id, by=by, suspended=False)

    def uninstall(self, installation_id: int, by: str) -> Json:
        """Uninstalls."""
        return self.do("installations/delete", installation_id=installation_id, by=by)

    def accept_permissions(
        self, installation_id: int, by: str, permissions: Mapping[str, str] | None = None
    ) -> Json:
        """Accepts what the App asks for now, or sets exactly ``permissions``."""
        given = None if permissions is None else dict(permissions)
        return self.do("installations/accept", installation_id=installation_id, by=by, permissions=given)

    def add_to_installation(self, installation_id: int, by: str, repos: Sequence[str]) -> Json:
        """Adds repositories."""
        return self.do("installations/repositories", installation_id=installation_id, by=by, add=list(repos))

    def remove_from_installation(self, installation_id: int, by: str, repos: Sequence[str]) -> Json:
        """Removes repositories."""
        return self.do(
            "installations/repositories", installation_id=installation_id, by=by, remove=list(repos)
        )

    def token(
        self,
        installation_id: int,
        permissions: Mapping[str, str] | None = None,
        repos: Sequence[str] | None = None,
    ) -> str:
        """An installation token without a JWT."""
        answer = self.do(
            "installations/token",
            installation_id=installation_id,
            permissions=None if permissions is None else dict(permissions),
            repos=None if repos is None else list(repos),
        )
        return str(answer["token"])

    def revoke_tokens(self) -> Json:
        """Makes every installation token given out so far invalid (401)."""
        return self.do("tokens/expire")

    # repositories

    def create_repo(
        self,
        owner: str,
        name: str,
        files: Mapping[str, str] | None = None,
        *,
        private: bool = True,
        default_branch: str = "main",
        branches: Sequence[str] = (),
        parent: str | None = None,
        by: str | None = None,
    ) -> Json:
        """A repository with one commit of ``files`` (empty without); the answer's ``path`` is the bare repository."""
        return self.do(
            "repos/create",
            owner=owner,
            name=name,
            files=None if files is None else dict(files),
            private=private,
            default_branch=default_branch,
            branches=list(branches),
            parent=parent,
            by=by,
        )

    def update_repo(self, repo: str, **fields: Any) -> Json:
        """Sets has_issues, drafts_allowed, description, disabled, without an event."""
        return self.do("repos/update", repo=repo, **fields)

    def rename_repo(self, repo: str, by: str, name: str) -> Json:
        """Renames: the old name answers 301."""
        return self.do("repos/change", repo=repo, by=by, name=name)

    def transfer_repo(self, repo: str, by: str, owner: str) -> Json:
        """Gives it to another owner."""
        return self.do("repos/change", repo=repo, by=by, owner=owner)

    def archive_repo(self, repo: str, by: str, archived: bool = True) -> Json:
        """Archives or unarchives."""
        return self.do("repos/change", repo=repo, by=by, archived=archived)

    def set_private(self, repo: str, by: str, private: bool) -> Json:
        """Hides or publishes."""
        return self.do("repos/change", repo=repo, by=by, private=private)

    def set_default_branch(self, repo: str, by: str, branch: str) -> Json:
        """Another default branch."""
        return self.do("repos/change", repo=repo, by=by, default_branch=branch)

    def delete_repo(self, repo: str, by: str) -> Json:
        """Deletes."""
        return self.do("repos/delete", repo=repo, by=by)

    def set_collaborator(self, repo: str, login: str, role: str) -> Json:
        """Role none, read, triage, write, maintain or admin."""
        return self.do("repos/collaborator", repo=repo, login=login, role=role)

    def protect(self, repo: str, branch: str, rule: str = "pull_request") -> Json:
        """Protects a branch or pattern: rule pull_request (GH006), signatures (GH006), ruleset (GH013)."""
        return self.do("repos/protect", repo=repo, branch=branch, rule=rule)

    def push_protection(self, texts: Sequence[str]) -> Json:
        """Texts that no push may contain (GH013)."""
        return self.do("repos/secrets", texts=list(texts))

    # branches

    def push(
        self,
        repo: str,
        by: str,
        branch: str,
        files: Mapping[str, str | None],
        message: str = "Update files",
        *,
        force: bool = False,
        from_branch: str | None = None,
    ) -> Json:
        """A person's commit on a branch; None removes a file; ``force`` replaces the last commit."""
        return self.do(
            "branches/push",
            repo=repo,
            by=by,
            branch=branch,
            files=dict(files),
            message=message,
            force=force,
            from_branch=from_branch,
        )

    def create_branch(self, repo: str, by: str, branch: str, at: str | None = None) -> Json:
        """A branch at a branch, tag or sha."""
        return self.do("branches/create", repo=repo, by=by, branch=branch, at=at)

    def delete_branch(self, repo: str, by: str, branch: str) -> Json:
        """Deletes a branch."""
        return self.do("branches/delete", repo=repo, by=by, branch=branch)
