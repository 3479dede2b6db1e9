"""Routes of the REST API: how they are declared, found and called."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import unquote, urlencode

from simulators.github.auth import Principal, bad_credentials
from simulators.github.errors import ApiError, forbidden, not_found
from simulators.github.model import Issue, Pull, Repository, User
from simulators.github.platform import Platform
from simulators.github.world import World

Json = Any
REPOSITORY = "/repos/{owner}/{repo}"
Item = TypeVar("Item")


@dataclass
class Reply:
    """An answer: JSON (None: no body), status, extra headers, or raw text."""

    json: Json = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    text: str | None = None


def created(json: Json, location: str | None = None) -> Reply:
    """201 with a body."""
    return Reply(json, 201, {"Location": location} if location else {})


def no_content() -> Reply:
    """204."""
    return Reply(None, 204)


@dataclass
class Call:
    """One request, authenticated and routed, as a route sees it."""

    platform: Platform
    method: str
    path: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    payload: dict[str, Any]
    principal: Principal | None
    found: Repository | None = None
    link: str | None = None

    @property
    def world(self) -> World:
        """All state."""
        return self.platform.world

    @property
    def repository(self) -> Repository:
        """The repository in the path."""
        if self.found is None:
            raise not_found()
        return self.found

    @property
    def caller(self) -> Principal:
        """The principal; 401 without one."""
        if self.principal is None:
            raise ApiError(401, "Requires authentication")
        return self.principal

    @property
    def actor(self) -> User:
        """The App's bot."""
        return self.caller.bot(self.world)

    def number(self, name: str) -> int:
        """A path parameter that is digits by its pattern."""
        return int(self.params[name])

    def issue(self) -> Issue:
        """The issue (or pull request) ``{number}``: 404, 410 when deleted, 301 when transferred."""
        issue = self.repository.issues.get(self.number("number"))
        if issue is None:
            raise not_found()
        if issue.deleted:
            raise ApiError(410, "This issue was deleted")
        if issue.moved_to is not None:
            target = f"{self.world.base_url}/repositories/{issue.moved_to[0]}/issues/{issue.moved_to[1]}"
            raise ApiError(301, "Moved Permanently", headers={"Location": target})
        if issue.pull is None and not self.repository.has_issues:
            raise ApiError(410, "Issues has been disabled in this repository.")
        return issue

    def pull(self) -> tuple[Issue, Pull]:
        """The pull request ``{number}``, or 404."""
        issue = self.repository.issues.get(self.number("number"))
        if issue is None or issue.pull is None or issue.deleted:
            raise not_found()
        return issue, issue.pull

    def text(self, name: str, default: str | None = None) -> str | None:
        """A string of the body; ``default`` when absent or null; 422 for another type."""
        value = self.payload.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            kind = type(value).__name__
            raise ApiError(
                422, f"Invalid request.\n\nFor 'properties/{name}', {value!r} ({kind}) is not a string."
            )
        return value

    def required(self, name: str) -> str:
        """A string that must be there, or 422."""
        value = self.text(name)
        if value is None:
            raise ApiError(422, f'Invalid request.\n\n"{name}" wasn\'t supplied.')
        return value

    def page(self, items: Sequence[Item]) -> list[Item]:
        """One page of a list (``per_page`` ≤ 100, default 30); sets the ``Link`` header."""
        size = min(max(_digits(self.query.get("per_page"), 30), 1), 100)
        page = max(_digits(self.query.get("page"), 1), 1)
        last = max((len(items) + size - 1) // size, 1)
        links = []
        for relation, number in (("prev", page - 1), ("next", page + 1), ("last", last), ("first", 1)):
            ahead = relation in ("next", "last")
            if (ahead and page < last) or (not ahead and page > 1):
                query = urlencode({**self.query, "page": number})
                links.append(f'<{self.world.base_url}{self.path}?{query}>; rel="{relation}"')
        self.link = ", ".join(links) or None
        return list(items[(page - 1) * size : page * size])


def _digits(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdigit() else default


RouteFunction = Callable[[Call], Json]


@dataclass(frozen=True)
class Route:
    """A method, a path pattern, and who may call it.

    ``needs``: permissions of which one suffices. ``caller``: ``installation``, ``app`` (JWT) or ``anyone``.
    """

    method: str
    template: str
    patterns: tuple[re.Pattern[str], ...]
    needs: tuple[str, ...]
    caller: str
    function: RouteFunction


ROUTES: list[Route] = []


def route(
    method: str, template: str, *needs: str, caller: str = "installation"
) -> Callable[[RouteFunction], RouteFunction]:
    """Registers a route; a template below ``/repos/{owner}/{repo}`` also answers below ``/repositories/{id}``."""

    def register(function: RouteFunction) -> RouteFunction:
        patterns = [_compile(template)]
        if template.startswith(REPOSITORY):
            patterns.append(_compile("/repositories/{repository_id:int}" + template[len(REPOSITORY) :]))
        ROUTES.append(Route(method, template, tuple(patterns), needs, caller, function))
        return function

    return register


def _compile(template: str) -> re.Pattern[str]:
    kinds = {"": "[^/]+", ":int": "[0-9]{1,18}", ":path": ".+"}
    pattern = re.sub(
        r"\{(\w+)((?::\w+)?)\}",
        lambda found: f"(?P<{found[1]}>{kinds[found[2]]})",
        re.escape(template).replace(r"\{", "{").replace(r"\}", "}"),
    )
    return re.compile(pattern)


def find_route(method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """The route of a raw (still quoted) path, with its parameters unquoted."""
    for candidate in ROUTES:
        if candidate.method != method:
            continue
        for pattern in candidate.patterns:
            match = pattern.fullmatch(path)
            if match:
                return candidate, {name: unquote(value) for name, value in match.groupdict().items()}
    return None


def is_rest_path(path: str) -> bool:
    """Whether a path belongs to the REST API at all, whatever the method."""
    return any(pattern.fullmatch(path) for candidate in ROUTES for pattern in candidate.patterns)


def invoke(call: Call, found: Route) -> Reply:
    """Checks access, calls the route, and gives what it returns as a Reply."""
    check_caller(call, found)
    if found.template.startswith(REPOSITORY):
        call.found = resolve_repository(call, found)
    check_permission(call, found)
    result = found.function(call)
    return result if isinstance(result, Reply) else Reply(result)


def check_caller(call: Call, found: Route) -> None:
    """The right kind of credentials for the route, or GitHub's refusal."""
    principal = call.principal
    if found.caller == "anyone":
        return
    if found.caller == "app":
        if principal is None or principal.token is not None:
            raise ApiError(401, "A JSON web token could not be decoded")
    elif principal is None:
        public = call.method == "GET" and found.template.startswith(REPOSITORY)
        if not public:
            raise ApiError(401, "Requires authentication")
    elif principal.token is None:
        raise bad_credentials()


def resolve_repository(call: Call, found: Route) -> Repository:
    """The repository in the path: 301 for a former name, 404 when the caller can't see it, 403 archived."""
    world = call.world
    if "repository_id" in call.params:
        repository = world.repositories.get(int(call.params["repository_id"]))
        if repository is not None and repository.deleted:
            repository = None
    else:
        owner, name = call.params["owner"], call.params["repo"]
        repository = world.find_repository(owner, name)
        moved = world.find_moved(owner, name) if repository is None else None
        if moved is not None and may_see(call, moved):
            rest = call.path.split("/", 4)[4:] if call.path.count("/") > 3 else []
            query = f"?{urlencode(call.query)}" if call.query else ""
            target = "/".join([f"{world.base_url}/repositories/{moved.id}", *rest]) + query
            raise ApiError(301, "Moved Permanently", headers={"Location": target})
    if repository is None or (found.caller != "app" and not may_see(call, repository)):
        raise not_found()
    if repository.archived and call.method != "GET":
        raise ApiError(403, "Repository was archived so is read-only.")
    if repository.disabled:
        raise ApiError(403, "Repository access blocked")
    return repository


def may_see(call: Call, repository: Repository) -> bool:
    """Whether the caller may know that a repository exists."""
    if call.principal is None:
        return not repository.private
    return call.principal.token is None or call.principal.sees(repository, call.world)


def check_permission(call: Call, found: Route) -> None:
    """One of the permissions the route names, or 403."""
    if found.caller != "installation" or not found.needs or call.principal is None:
        return
    if not any(call.principal.can(need) for need in found.needs):
        accepted = "; ".join(need.replace(":", "=") for need in found.needs)
        error = forbidden()
        error.headers["X-Accepted-GitHub-Permissions"] = accepted
        raise error
