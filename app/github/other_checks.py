"""What other Apps' checks say about a commit: their runs and suites, the annotations and logs of those that failed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypeVar

from app.domain.ci import ACTIONS, MAX_ANNOTATIONS, Annotation, CheckDetails, HeadChecks, OtherCheck
from app.domain.errors import Denied, Gone, Refused, refuses_credentials
from app.domain.ports import RepoRef
from app.github.answers import parse_entries
from app.github.clients import Ask, work_on
from app.github.family import Family, quoted, repo_path
from app.github.log_tail import fetch_tail
from app.github.parts import AppPart, Id

Shape = TypeVar("Shape")


@dataclass(frozen=True)
class _Output:
    title: str | None = None
    summary: str | None = None
    annotations_count: int = 0


@dataclass(frozen=True)
class _Suite:
    """Each App that may write checks gets one on every push, used or not: one without runs says nothing."""

    id: Id
    status: str | None = None
    conclusion: str | None = None
    app: AppPart | None = None
    latest_check_runs_count: int = 0


@dataclass(frozen=True)
class _Run:
    id: Id
    name: str
    status: str
    conclusion: str | None = None
    app: AppPart | None = None
    output: _Output | None = None


@dataclass(frozen=True)
class _Annotation:
    path: str | None = None
    start_line: int | None = None
    message: str | None = None
    title: str | None = None


class OtherChecks(Family):
    async def fetch_head_checks(self, repo: RepoRef, head_sha: str) -> HeadChecks:
        """The newest run of each check of other Apps on that commit; and suites that ended without a run."""
        runs, suites = await asyncio.gather(
            self._listed(_Run, repo, head_sha, "check-runs"),
            self._listed(_Suite, repo, head_sha, "check-suites"),
        )
        checks = [_check_of_run(run) for run in runs if not self._is_ours(run.app)]
        others = [suite for suite in suites if not self._is_ours(suite.app)]
        checks += [_check_of_suite(suite) for suite in others if suite.conclusion and not _has_runs(suite)]
        running = any(suite.status != "completed" and _has_runs(suite) for suite in others)
        return HeadChecks(tuple(checks), running)

    async def fetch_check_details(self, repo: RepoRef, check: OtherCheck) -> CheckDetails:
        """Annotations of the first page, and the end of the log where GitHub keeps it. What we may not read is left out."""
        if check.check_id is None:
            return CheckDetails()
        annotations: tuple[Annotation, ...] = ()
        if check.annotations:
            annotations = await self._annotations(repo, check.check_id)
        # A job of GitHub's own CI carries the number of its check run.
        log = await self._log(repo, check.check_id) if check.app_slug == ACTIONS else None
        return CheckDetails(annotations, log)

    async def _listed(self, shape: type[Shape], repo: RepoRef, sha: str, what: str) -> list[Shape]:
        path = repo_path(repo, "commits", quoted(sha), what)
        return await self._api.pages(shape, Ask("GET", path, work_on(repo)), key=what.replace("-", "_"))

    async def _annotations(self, repo: RepoRef, check_id: int) -> tuple[Annotation, ...]:
        path = repo_path(repo, "check-runs", check_id, "annotations")
        try:
            answer = await self._api.call(Ask("GET", path, work_on(repo), {"per_page": MAX_ANNOTATIONS}))
        except (Gone, Denied, Refused) as error:
            _unless_credentials(error)
            return ()
        return tuple(
            Annotation(one.path or "", one.start_line or 0, one.message or "", one.title or "")
            for one in parse_entries(_Annotation, answer, None)
        )

    async def _log(self, repo: RepoRef, job_id: int) -> str | None:
        path = repo_path(repo, "actions", "jobs", job_id, "logs")
        try:
            answer = await self._api.call(Ask("GET", path, work_on(repo), linked=True))
        except (Gone, Denied, Refused) as error:  # too old, or no permission to read it
            _unless_credentials(error)
            return None
        return await fetch_tail(answer.headers.get("location", ""))

    def _is_ours(self, app: AppPart | None) -> bool:
        return app is not None and app.id == self._api.access.app_id


def _unless_credentials(error: Gone | Denied | Refused) -> None:
    """A key or token that GitHub does not take says nothing about one annotation or log."""
    if refuses_credentials(error):
        raise error


def _has_runs(suite: _Suite) -> bool:
    return suite.latest_check_runs_count > 0


def _check_of_run(run: _Run) -> OtherCheck:
    output = run.output or _Output()
    return OtherCheck(
        check_id=run.id,
        name=run.name,
        status=run.status,
        conclusion=run.conclusion,
        app_slug=(run.app.slug if run.app else None) or "",
        title=output.title or "",
        summary=output.summary or "",
        annotations=output.annotations_count,
    )


def _check_of_suite(suite: _Suite) -> OtherCheck:
    slug = (suite.app.slug if suite.app else None) or ""
    return OtherCheck(None, f"all checks of {slug or 'an App'}", "completed", suite.conclusion, slug)
