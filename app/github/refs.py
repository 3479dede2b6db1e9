"""Branches, commits and files, through the API."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import httpx

from app.domain.errors import Gone, Refused, Unexpected
from app.domain.ids import UserId
from app.domain.ports import Branch, RepoRef
from app.github.answers import parse_answer
from app.github.clients import Ask, work_on
from app.github.family import Family, quoted, repo_path
from app.github.parts import Account

_HEADS = "refs/heads/"


@dataclass(frozen=True)
class _ObjectPart:
    sha: str


@dataclass(frozen=True)
class _RefPart:
    ref: str
    object: _ObjectPart


@dataclass(frozen=True)
class _CommitPart:
    sha: str
    tree: _ObjectPart


@dataclass(frozen=True)
class _MessagePart:
    message: str


@dataclass(frozen=True)
class _HistoryPart:
    """An entry of a branch's history; `author` is null for somebody who has no account."""

    sha: str
    commit: _MessagePart
    author: Account | None = None


@dataclass(frozen=True)
class _EntryPart:
    name: str
    type: str
    sha: str
    encoding: str | None = None
    content: str | None = None


@dataclass(frozen=True)
class _BlobPart:
    content: str
    encoding: str


class Refs(Family):
    async def fetch_branch(self, repo: RepoRef, name: str) -> Branch | None:
        """The branch with exactly that name. Refused (`empty_repository`) where there is no commit at all."""
        path = repo_path(repo, "git/ref/heads", quoted(name))
        try:
            answer = await self._api.call(Ask("GET", path, work_on(repo)))
        except Gone:
            return None
        if answer.content.lstrip().startswith(b"["):
            return None  # older servers list what begins so
        found = parse_answer(_RefPart, answer)
        return Branch(name, found.object.sha) if found.ref == _HEADS + name else None

    async def fetch_refs(self, repo: RepoRef, prefix: str) -> tuple[str, ...]:
        """Names (without refs/heads/) of branches that start with `prefix`; none in an empty repository."""
        path = repo_path(repo, "git/matching-refs/heads", quoted(prefix))
        try:
            listed = await self._api.pages(_RefPart, Ask("GET", path, work_on(repo)))
        except Refused as refused:
            if refused.code == "empty_repository":
                return ()
            raise
        return tuple(found.ref.removeprefix(_HEADS) for found in listed if found.ref.startswith(_HEADS))

    async def fetch_file(self, repo: RepoRef, path: str, ref: str) -> str | None:
        """A text file at a branch or commit; None when there is no *file*. Bytes that are no UTF-8 are replaced."""
        answer = await self._contents(repo, path, ref)
        if answer is None or answer.content.lstrip().startswith(b"["):
            return None
        entry = parse_answer(_EntryPart, answer)
        if entry.type != "file":
            return None
        if entry.encoding == "base64" and entry.content is not None:
            return _decoded(entry.content)
        # Above one megabyte the content is left out.
        blob = await self._api.fetch(
            _BlobPart, Ask("GET", repo_path(repo, "git/blobs", entry.sha), work_on(repo))
        )
        return _decoded(blob.content)

    async def fetch_tree_paths(self, repo: RepoRef, directory: str, ref: str) -> tuple[str, ...]:
        """Names of the files directly in `directory` ('' = root) at `ref`; empty when there is none."""
        answer = await self._contents(repo, directory, ref)
        if answer is None or not answer.content.lstrip().startswith(b"["):
            return ()
        return tuple(entry.name for entry in parse_answer(list[_EntryPart], answer) if entry.type == "file")

    async def _contents(self, repo: RepoRef, path: str, ref: str) -> httpx.Response | None:
        if any(part in {".", ".."} for part in path.split("/")):
            return None  # a URL with dots is another URL
        where = repo_path(repo, "contents", quoted(path.strip("/"))).rstrip("/")
        try:
            return await self._api.call(Ask("GET", where, work_on(repo), {"ref": ref}))
        except Gone:
            return None
        except Refused as refused:
            if refused.code == "empty_repository":
                return None
            raise

    async def ensure_start_commit(self, repo: RepoRef, base_sha: str, message: str) -> str:
        """An empty commit on `base_sha`, made through the API without an author, so that GitHub signs it.

        Called twice it makes two commits; one that no branch names disappears by itself.
        """
        scope = work_on(repo)
        base = await self._api.fetch(
            _CommitPart, Ask("GET", repo_path(repo, "git/commits", quoted(base_sha)), scope)
        )
        body = {"message": message, "tree": base.tree.sha, "parents": [base.sha]}
        made = await self._api.fetch(
            _CommitPart, Ask("POST", repo_path(repo, "git/commits"), scope, json=body)
        )
        return made.sha

    async def find_start_commit(
        self, repo: RepoRef, branch: str, message: str, author_id: UserId
    ) -> str | None:
        """The newest of the last 100 commits of `branch` with exactly that message and that author."""
        params: dict[str, str | int] = {"sha": branch, "per_page": 100}
        try:
            answer = await self._api.call(Ask("GET", repo_path(repo, "commits"), work_on(repo), params))
        except Gone:
            return None
        for found in parse_answer(list[_HistoryPart], answer):
            of_author = found.author is not None and found.author.id == author_id
            if of_author and found.commit.message.strip() == message.strip():
                return found.sha
        return None

    async def ensure_branch(self, repo: RepoRef, name: str, sha: str) -> bool:
        """True when the branch stands on `sha` now; False when the name is taken by another commit.

        Refused with `ref_blocked`, naming the branch in the way, when the name can't exist.
        """
        found = await self.fetch_branch(repo, name)
        if found is not None:
            return found.sha == sha
        body = {"ref": _HEADS + name, "sha": sha}
        try:
            await self._api.call(Ask("POST", repo_path(repo, "git/refs"), work_on(repo), json=body))
        except Refused as refused:
            found = await self.fetch_branch(repo, name)
            if found is not None:
                return found.sha == sha
            blocking = await self._blocking(repo, name)
            if blocking is not None:
                text = f"the branch `{blocking}` exists, so `{name}` can't be created"
                raise Refused(text, code="ref_blocked") from refused
            raise
        return True

    async def _blocking(self, repo: RepoRef, name: str) -> str | None:
        """A branch that stands where `name` needs a folder, or the other way round."""
        parts = name.split("/")
        for count in range(1, len(parts)):
            parent = "/".join(parts[:count])
            if await self.fetch_branch(repo, parent) is not None:
                return parent
        below = await self.fetch_refs(repo, f"{name}/")
        return below[0] if below else None

    async def ensure_branch_deleted(self, repo: RepoRef, name: str, expected_sha: str) -> bool:
        """Delete it only while it stands on `expected_sha`; True when it is gone now.

        Between the look and the deletion lies a moment: GitHub's API has no comparison of its own here.
        """
        found = await self.fetch_branch(repo, name)
        if found is None:
            return True
        if found.sha != expected_sha:
            return False
        path = repo_path(repo, "git/refs/heads", quoted(name))
        try:
            await self._api.call(Ask("DELETE", path, work_on(repo)))
        except Gone:
            return True
        except Refused as refused:
            if refused.code != "ref_missing":
                raise
        return True


def _decoded(content: str) -> str:
    try:
        raw = base64.b64decode(content)
    except (binascii.Error, ValueError):
        raise Unexpected("GitHub's file content is not base64") from None
    return raw.decode("utf-8", "replace")
