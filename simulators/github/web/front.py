"""ASGI front of the pages: which page an address means."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from simulators.github.actions.issues import add_comment
from simulators.github.model import Issue, Repository
from simulators.github.platform import Platform
from simulators.github.rest.manifest import submit_manifest
from simulators.github.web import pages
from simulators.github.web.html import Html, el
from simulators.github.web.parts import page
from simulators.github.world import World

STYLE = Path(__file__).with_name("static") / "style.css"
SECURITY = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self'; form-action *",
    "X-Content-Type-Options": "nosniff",
}
REPOSITORY = re.compile(r"/(?P<owner>[^/]+)/(?P<name>[^/]+?)(?P<rest>/.*)?")
NEW_COMMENT = re.compile(r"(?P<page>/(?P<name>[^/]+/[^/]+)/(?:issues|pull)/(?P<number>\d+))/comments")
NEW_APP = re.compile(r"(?:/organizations/([^/]+))?/settings/apps/new")


class WebFront:
    """Serves pages for a browser. Everything is visible: it is a view into the simulation, not a security boundary."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        request = Request(scope, receive)
        path, posted = request.url.path, request.method == "POST"
        if posted and (found := NEW_APP.fullmatch(path)):
            answer = await self._new_app(request, found[1])
        elif posted and (found := NEW_COMMENT.fullmatch(path)):
            answer = await self._new_comment(request, found)
        elif request.method in ("GET", "HEAD"):
            answer = self._get(path)
        else:
            answer = PlainTextResponse("Not Found", 404)
        answer.headers.update(SECURITY)
        await answer(scope, receive, send)

    def _get(self, path: str) -> Response:
        if path.startswith("/_static/"):
            return self._static(path.removeprefix("/_static/"))
        shown = find_page(self.platform.world, path.rstrip("/") or "/")
        if isinstance(shown, Response):
            return shown
        if shown is None:
            return HTMLResponse(page("Not found", el("h1", "Not found")), 404)
        return HTMLResponse(shown)

    def _static(self, name: str) -> Response:
        if name == "style.css":
            return Response(STYLE.read_bytes(), media_type="text/css")
        if name == "avatar.svg":
            circle = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><circle cx="4" cy="4" r="4" fill="#888"/></svg>'
            return Response(circle, media_type="image/svg+xml")
        found = re.fullmatch(r"logs/(\d+)/(\d+)", name)
        repository = self.platform.world.repositories.get(int(found[1])) if found else None
        for run in repository.workflow_runs.values() if repository else []:
            for job in run.jobs:
                if found and job.id == int(found[2]):
                    return PlainTextResponse(job.log)
        return PlainTextResponse("Not Found", 404)

    async def _new_app(self, request: Request, organization: str | None) -> Response:
        """The form of the manifest flow: registers at once and sends the browser back."""
        world = self.platform.world
        people = (user for user in world.users.values() if user.kind == "User")
        owner = world.find_user(organization) if organization else next(people, None)
        if owner is None:
            return PlainTextResponse("There is no such account.", 404)
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        text = form.get("manifest", [""])[0]
        try:
            target = submit_manifest(self.platform, owner, text, request.query_params.get("state"))
        except (ValueError, json.JSONDecodeError) as problem:
            return PlainTextResponse(f"Invalid GitHub App configuration: {problem}", 422)
        return RedirectResponse(target, 302)

    async def _new_comment(self, request: Request, found: re.Match[str]) -> Response:
        """The form below a conversation: its comment is there when the browser comes back."""
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        world, text = self.platform.world, form.get("body", [""])[0].strip()
        try:
            repository = world.repository(found["name"])
            issue, author = repository.issues[int(found["number"])], world.user(form.get("by", [""])[0])
        except LookupError:
            return PlainTextResponse("Not Found", 404)
        if text:
            add_comment(self.platform, repository, issue, author, text)
        return RedirectResponse(found["page"], 303)


@dataclass(frozen=True)
class Place:
    """A repository and what follows it in an address."""

    world: World
    repository: Repository
    rest: str


def find_page(world: World, path: str) -> Html | Response | None:
    """The page of an address; None when there is none."""
    if path == "/":
        return pages.home(world)
    if "/" not in path[1:]:
        user = world.find_user(path[1:])
        return pages.profile(world, user) if user else None
    if path.startswith("/apps/"):
        app = next(
            (found for found in world.apps.values() if found.slug == path.removeprefix("/apps/")), None
        )
        return (
            page(app.name, el("h1", app.name), el("p", app.description or "A GitHub App.")) if app else None
        )
    match = REPOSITORY.fullmatch(path)
    if match is None:
        return None
    repository = world.find_repository(match["owner"], match["name"])
    if repository is None:
        moved = world.find_moved(match["owner"], match["name"])
        rest = match["rest"] or ""
        return RedirectResponse(f"{world.base_url}/{world.full_name(moved)}{rest}", 301) if moved else None
    return repository_view(Place(world, repository, (match["rest"] or "").lstrip("/")))


def repository_view(place: Place) -> Html | Response | None:
    """A page below a repository."""
    world, repository = place.world, place.repository
    kind, _, rest = place.rest.partition("/")
    if kind == "":
        return pages.tree(world, repository)
    if kind in ("issues", "pulls") and not rest:
        return pages.issue_list(world, repository, pulls=kind == "pulls")
    if kind in ("issues", "pull"):
        return conversation_view(place, rest)
    if kind in ("blob", "raw", "tree"):
        return file_view(place, kind, rest)
    if kind == "commit":
        return pages.commit_page(world, repository, rest)
    if kind == "runs" and rest.isdigit() and int(rest) in repository.check_runs:
        return pages.check_page(world, repository, repository.check_runs[int(rest)])
    if kind == "actions":
        job = re.fullmatch(r"runs/\d+/job/(\d+)", rest)
        run = repository.check_runs.get(int(job[1])) if job else None
        return pages.check_page(world, repository, run) if run else None
    return None


def conversation_view(place: Place, rest: str) -> Html | Response | None:
    """An issue, or a tab or diff of a pull request."""
    number, _, tab = rest.partition("/")
    plain = number.removesuffix(".diff").removesuffix(".patch")
    issue = place.repository.issues.get(int(plain)) if plain.isdigit() else None
    if issue is None or issue.deleted:
        return None
    if issue.pull is None:
        return pages.issue_page_of(place.world, place.repository, issue) if not tab else None
    if plain != number:
        return PlainTextResponse(diff_text(place.repository, issue))
    return pages.pull_page(place.world, place.repository, issue, tab)


def diff_text(repository: Repository, issue: Issue) -> str:
    """A pull request as one diff."""
    pull = issue.pull
    if pull is None:
        return ""
    base = repository.git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
    return repository.git.run("diff", base, pull.head_sha).decode("utf-8", "replace")


def file_view(place: Place, kind: str, rest: str) -> Html | Response | None:
    """A file or directory; the branch is the longest one that fits, since names may hold slashes."""
    ref, path = split_ref(place.repository.git.refs(), rest)
    if kind == "tree":
        return pages.tree(place.world, place.repository, ref, path)
    if kind == "blob":
        return pages.blob(place.world, place.repository, ref, path)
    commit = place.repository.git.find_commit_sha(ref)
    entries = place.repository.git.tree(commit, path=path) if commit and path else []
    if not entries or entries[0].kind != "blob":
        return None
    return PlainTextResponse(place.repository.git.blob(entries[0].sha))


def split_ref(refs: Mapping[str, str], rest: str) -> tuple[str, str]:
    """Branch and path of what follows ``blob/``."""
    names = sorted((name.removeprefix("refs/heads/") for name in refs), key=len, reverse=True)
    for name in names:
        if rest == name or rest.startswith(f"{name}/"):
            return name, rest[len(name) + 1 :]
    ref, _, path = rest.partition("/")
    return ref, path
