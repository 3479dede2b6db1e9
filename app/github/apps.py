"""The App itself, and the repositories and people it can see."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from app.domain.errors import Gone, OutsideError
from app.domain.ids import InstallationId, RepoId, UserId
from app.domain.ports import Identity, Permission, RepoRef, Repository, User
from app.github.clients import Api, Ask, work_on
from app.github.family import Family, repo_path
from app.github.parts import Account, AppPart, InstallationPart, RepositoryPart
from app.github.tokens import Purpose, Scope

_PERMISSIONS: Mapping[str, Permission] = {
    "admin": Permission.ADMIN,
    "write": Permission.WRITE,
    "read": Permission.READ,
    # Role names, and the words of older and compatible servers. Anything else gives nothing.
    "maintain": Permission.WRITE,
    "push": Permission.WRITE,
    "triage": Permission.READ,
    "pull": Permission.READ,
}


@dataclass(frozen=True)
class _PermissionAnswer:
    permission: str
    user: Account | None = None


class Apps(Family):
    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._identity: Identity | None = None
        self._asking = asyncio.Lock()

    async def fetch_identity(self) -> Identity:
        """Who we are on GitHub. Asked once per process: neither the App's id nor its bot's ever changes."""
        return await self._identity_by(None)

    async def _identity_by(self, installation_id: InstallationId | None) -> Identity:
        async with self._asking:
            if self._identity is None:
                app = await self._api.fetch(AppPart, Ask("GET", "/app"))
                login = f"{app.slug}[bot]"
                bot = await self._fetch_bot(login, installation_id)
                self._identity = Identity(app.id, app.slug or "", login, UserId(bot.id))
            return self._identity

    async def _fetch_bot(self, login: str, installation_id: InstallationId | None) -> Account:
        path = f"/users/{quote(login, safe='')}"
        # The App's own signature does not open this route: any installation's token does, and where there is
        # none yet, GitHub answers to anybody.
        if installation_id is None:
            listed = await self._api.fetch(
                list[InstallationPart], Ask("GET", "/app/installations", params={"per_page": 10})
            )
            installation_id = next((InstallationId(i.id) for i in listed if i.suspended_at is None), None)
        if installation_id is None:
            return await self._api.fetch(Account, Ask("GET", path, anonymous=True))
        return await self._api.fetch(Account, Ask("GET", path, Scope(installation_id, Purpose.LISTING)))

    async def fetch_repository(self, repo: RepoRef) -> Repository:
        """The repository with that *number*, under the names it has now.

        Its old name may belong to another repository by now, which is never returned.
        """
        scope = work_on(repo)
        try:
            found = await self._api.fetch(RepositoryPart, Ask("GET", repo_path(repo), scope, patient=True))
        except Gone:
            found = None
        if found is None or found.id != repo.repo_id:
            found = await self._api.fetch(RepositoryPart, Ask("GET", f"/repositories/{repo.repo_id}", scope))
        return _repository(found)

    async def fetch_installation_repositories(
        self, installation_id: InstallationId
    ) -> tuple[Repository, ...]:
        scope = Scope(installation_id, Purpose.LISTING)
        listed = await self._api.pages(
            RepositoryPart, Ask("GET", "/installation/repositories", scope), key="repositories"
        )
        return tuple(_repository(found) for found in listed)

    async def fetch_permission(self, repo: RepoRef, user: User) -> Permission:
        """What the person with that *number* may do now; NONE for one who no longer exists.

        Logins can be renamed and taken over by others, so the answer counts only for the same id.
        """
        try:
            answer = await self._permission_of(repo, user.login)
            if answer.user is not None and answer.user.id == user.user_id:
                return _permission(answer.permission)
            missing: OutsideError | None = None
        except Gone as gone:
            missing = gone
        try:
            now = await self._api.fetch(Account, Ask("GET", f"/user/{user.user_id}", work_on(repo)))
        except Gone:
            return Permission.NONE
        if now.login == user.login:
            if missing is not None:
                raise missing
            return Permission.NONE
        answer = await self._permission_of(repo, now.login)
        same = answer.user is not None and answer.user.id == user.user_id
        return _permission(answer.permission) if same else Permission.NONE

    async def _permission_of(self, repo: RepoRef, login: str) -> _PermissionAnswer:
        path = repo_path(repo, "collaborators", quote(login, safe=""), "permission")
        return await self._api.fetch(_PermissionAnswer, Ask("GET", path, work_on(repo)))


def _permission(text: str) -> Permission:
    return _PERMISSIONS.get(text, Permission.NONE)


def _repository(part: RepositoryPart) -> Repository:
    return Repository(
        repo_id=RepoId(part.id),
        owner=part.owner_login,
        name=part.name,
        default_branch=part.default_branch or "",
        archived=part.archived,
        disabled=part.disabled,
        private=part.private,
        has_issues=part.has_issues,
        html_url=part.html_url,
    )
