"""The check run on a pull request's head."""

from __future__ import annotations

from typing import Any

from app.domain.errors import Unexpected
from app.domain.ports import CheckOutput, CheckRun, RepoRef
from app.github.clients import Ask, work_on
from app.github.family import Family, quoted, repo_path, same_text
from app.github.parts import CheckRunPart

NAME = "Issuewright"
"""The name people see and may require in branch rules; part of the public contract."""

_MAX_TITLE = 255
_MAX_SUMMARY = 65_535
_MAX_ACTIONS = 3
_MAX_ACTION_TEXTS = (20, 40, 20)
"""Characters of a button's label, description and identifier."""

_SUPERSEDED = CheckOutput("Superseded", "Another check run took its place.", "", "neutral")


class Checks(Family):
    async def ensure_check_run(
        self, repo: RepoRef, head_sha: str, external_id: str, output: CheckOutput, *, known_id: int | None
    ) -> CheckRun:
        """The check run `Issuewright` on that head, showing `output`: ours by external id, else by `known_id`, else new.

        Of several the newest counts, because that is the one GitHub shows. A concluded one is never taken back:
        when `output` is in progress again, a new run follows it.
        """
        _check_output(output)
        runs = await self._ours(repo, head_sha)
        same = [run for run in runs if run.external_id == external_id]
        await self._conclude_extras(repo, same[1:])
        run = same[0] if same else next((run for run in runs if run.id == known_id), None)
        if run is None or (run.status == "completed" and output.conclusion is None):
            body = {"name": NAME, "head_sha": head_sha, "external_id": external_id, **_body(output)}
            return _check_run(await self._send(repo, "POST", repo_path(repo, "check-runs"), body))
        if _shows(run, output):
            return _check_run(run)
        path = repo_path(repo, "check-runs", run.id)
        return _check_run(await self._send(repo, "PATCH", path, _body(output)))

    async def _conclude_extras(self, repo: RepoRef, extras: list[CheckRunPart]) -> None:
        """What a concurrent caller made beside the newest one can't be deleted, but must not stay open for ever."""
        for run in extras:
            if run.status != "completed":
                await self._send(repo, "PATCH", repo_path(repo, "check-runs", run.id), _body(_SUPERSEDED))

    async def _ours(self, repo: RepoRef, head_sha: str) -> list[CheckRunPart]:
        """Our App's runs of that name on the head, newest first."""
        params: dict[str, str | int] = {
            "check_name": NAME,
            "filter": "all",
            "app_id": self._api.access.app_id,
        }
        path = repo_path(repo, "commits", quoted(head_sha), "check-runs")
        listed = await self._api.pages(
            CheckRunPart, Ask("GET", path, work_on(repo), params), key="check_runs"
        )
        # `app` is null on some compatible servers, which have filtered by it all the same.
        ours = [run for run in listed if run.app is None or run.app.id == self._api.access.app_id]
        return sorted(ours, key=lambda run: run.id, reverse=True)

    async def _send(self, repo: RepoRef, method: str, path: str, body: dict[str, Any]) -> CheckRunPart:
        return await self._api.fetch(CheckRunPart, Ask(method, path, work_on(repo), json=body))


def _body(output: CheckOutput) -> dict[str, Any]:
    state = (
        {"status": "in_progress"}
        if output.conclusion is None
        else {"status": "completed", "conclusion": output.conclusion}
    )
    actions = [
        {"label": label, "description": description, "identifier": identifier}
        for label, description, identifier in output.actions
    ]
    link = {"details_url": output.details_url} if output.details_url else {}
    shown = {"title": output.title, "summary": output.summary}
    return {**state, **link, "output": shown, "actions": actions}


def _shows(run: CheckRunPart, output: CheckOutput) -> bool:
    """Whether an update would change nothing. Buttons are not in GitHub's answers; they change with the conclusion."""
    shown = run.output
    return (
        run.conclusion == output.conclusion
        and (run.status == "completed") == (output.conclusion is not None)
        and shown is not None
        and same_text(shown.title or "", output.title)
        and same_text(shown.summary or "", output.summary)
        and (not output.details_url or run.details_url == output.details_url)
    )


def _check_output(output: CheckOutput) -> None:
    """GitHub's limits; what is longer should have been cut where it was rendered. Raises Unexpected."""
    if len(output.title) > _MAX_TITLE or len(output.summary) > _MAX_SUMMARY:
        raise Unexpected("a check run's title or summary is too long")
    if len(output.actions) > _MAX_ACTIONS:
        raise Unexpected("a check run has at most three buttons")
    for action in output.actions:
        if any(len(text) > limit for text, limit in zip(action, _MAX_ACTION_TEXTS, strict=True)):
            raise Unexpected(f"a text of the button {action[0]!r} is too long")


def _check_run(part: CheckRunPart) -> CheckRun:
    return CheckRun(part.id, part.head_sha, part.status, part.conclusion, part.html_url or "")
