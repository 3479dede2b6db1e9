"""What GraphQL's fields mean here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulators.github.actions import (
    issues as issue_actions,
    pulls as pull_actions,
    reviews as review_actions,
)
from simulators.github.auth import Principal
from simulators.github.graphql_syntax import Field, Variable
from simulators.github.graphql_types import TYPES, Typed
from simulators.github.model import Comment, Issue, Repository, Review, ReviewComment, Thread, User
from simulators.github.nodes import parse_node_id
from simulators.github.platform import Platform

Json = dict[str, Any]
CONTENTS = {
    "THUMBS_UP": "+1",
    "THUMBS_DOWN": "-1",
    "LAUGH": "laugh",
    "HOORAY": "hooray",
    "CONFUSED": "confused",
    "HEART": "heart",
    "ROCKET": "rocket",
    "EYES": "eyes",
}
CLASSIFIERS = ("SPAM", "ABUSE", "OFF_TOPIC", "OUTDATED", "DUPLICATE", "RESOLVED", "LOW_QUALITY")


class GraphQLError(Exception):
    """A failed field: GitHub's ``type`` (NOT_FOUND, FORBIDDEN, UNPROCESSABLE, …) and message."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    def json(self, path: list[str], position: int) -> Json:
        """The entry in ``errors``."""
        return {
            "type": self.kind,
            "path": path,
            "locations": [{"line": 1, "column": position + 1}],
            "message": str(self),
        }


@dataclass
class Scope:
    """One execution: who asks, with which variables."""

    platform: Platform
    principal: Principal
    variables: Json

    @property
    def bot(self) -> User:
        """The account the App acts as."""
        return self.principal.bot(self.platform.world)

    def resolve(self, value: Any) -> Any:
        """A value with its variables put in."""
        if isinstance(value, Variable):
            return self.variables.get(value.name)
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if isinstance(value, dict):
            return {name: self.resolve(item) for name, item in value.items()}
        return value

    def arguments(self, field: Field) -> Json:
        """A field's arguments."""
        return {name: self.resolve(value) for name, value in field.arguments.items()}

    def need(self, permission: str) -> None:
        """FORBIDDEN without a permission."""
        if not self.principal.can(permission):
            raise GraphQLError("FORBIDDEN", "Resource not accessible by integration")

    def repository_of(self, thing: Any) -> Repository:
        """The repository of a thing the caller can see; NOT_FOUND otherwise."""
        repository = self.platform.world.repositories.get(thing.repo_id)
        if repository is None or not self.principal.sees(repository, self.platform.world):
            raise GraphQLError("NOT_FOUND", "Could not resolve to a node with the global id.")
        return repository

    def node(self, identifier: Any) -> Typed:
        """The thing with a node id."""
        parsed = parse_node_id(identifier) if isinstance(identifier, str) else None
        thing = find_thing(self, *parsed) if parsed else None
        if parsed is None or thing is None:
            raise GraphQLError(
                "NOT_FOUND", f"Could not resolve to a node with the global id of '{identifier}'"
            )
        if parsed[0] in ("User", "Bot", "Organization"):
            return Typed(parsed[0], thing)
        if isinstance(thing, Repository):
            if not self.principal.sees(thing, self.platform.world):
                raise GraphQLError(
                    "NOT_FOUND", f"Could not resolve to a node with the global id of '{identifier}'"
                )
        else:
            self.repository_of(thing)
        return Typed(parsed[0], thing)

    def select(self, value: Any, fields: list[Field]) -> Any:
        """The selected part of a value: a thing, a plain object, a list of such, or a scalar."""
        if isinstance(value, list):
            return [self.select(item, fields) for item in value]
        if isinstance(value, Typed):
            return self._select_typed(value, fields)
        if isinstance(value, dict):
            missing = [
                field.name for field in fields if field.name not in value and field.name != "__typename"
            ]
            if missing:
                raise GraphQLError("undefinedField", f"Field '{missing[0]}' doesn't exist here")
            return {f.alias: self.select(value.get(f.name), f.fields) for f in fields}
        return value

    def _select_typed(self, value: Typed, fields: list[Field]) -> Json:
        found: Json = {}
        for field in fields:
            if field.on not in (None, value.kind, "Node", "Actor", "Minimizable", "Reactable"):
                continue
            if field.name == "__typename":
                found[field.alias] = value.kind
                continue
            resolver = TYPES[value.kind].get(field.name)
            if resolver is None:
                raise GraphQLError(
                    "undefinedField", f"Field '{field.name}' doesn't exist on type '{value.kind}'"
                )
            result = resolver(self.platform.world, value.thing, self.arguments(field))
            found[field.alias] = self.select(result, field.fields)
        return found


def find_thing(scope: Scope, kind: str, key: str) -> Any:
    """The record behind a decoded node id, or None."""
    world = scope.platform.world
    if not key.isdigit():
        return None
    number = int(key)
    tables: dict[str, dict[int, Any]] = {
        "IssueComment": world.comments,
        "PullRequestReviewComment": world.review_comments,
        "PullRequestReview": world.reviews,
        "PullRequestReviewThread": world.threads,
        "Repository": world.repositories,
        "User": world.users,
        "Bot": world.users,
        "Organization": world.users,
    }
    if kind in tables:
        return tables[kind].get(number)
    if kind in ("Issue", "PullRequest"):
        for repository in world.repositories.values():
            for issue in repository.issues.values():
                own = issue.pull.id if issue.pull else issue.id
                if own == number and not issue.deleted:
                    return issue
    return None


def root_query(scope: Scope, name: str, arguments: Json) -> Any:
    """The value of a field of the query root."""
    if name == "node":
        return scope.node(arguments.get("id"))
    if name == "viewer":
        return Typed("Bot", scope.bot)
    if name == "repository":
        world = scope.platform.world
        owner, repo = str(arguments.get("owner")), str(arguments.get("name"))
        repository = world.find_repository(owner, repo) or world.find_moved(owner, repo)
        if repository is None or not scope.principal.sees(repository, world):
            raise GraphQLError(
                "NOT_FOUND", f"Could not resolve to a Repository with the name '{owner}/{repo}'."
            )
        return Typed("Repository", repository)
    if name == "rateLimit":
        return {"limit": 5000, "remaining": 4999, "cost": 1, "used": 1}
    raise GraphQLError("undefinedField", f"Field '{name}' doesn't exist on type 'Query'")


def pull_of(scope: Scope, identifier: Any) -> tuple[Repository, Issue]:
    """The pull request with a node id."""
    thing = scope.node(identifier).thing
    if not isinstance(thing, Issue) or thing.pull is None:
        raise GraphQLError(
            "NOT_FOUND", f"Could not resolve to PullRequest node with the global id of '{identifier}'"
        )
    return scope.repository_of(thing), thing


def set_draft(draft: bool) -> Callable[[Scope, Json], Json]:
    """MarkPullRequestReadyForReview and convertPullRequestToDraft."""

    def mutate(scope: Scope, given: Json) -> Json:
        repository, issue = pull_of(scope, given.get("pullRequestId"))
        scope.need("pull_requests:write")
        scope.need("contents:write")
        if issue.state != "open":
            raise GraphQLError("UNPROCESSABLE", "Pull request is closed.")
        if draft and not repository.drafts_allowed:
            raise GraphQLError("UNPROCESSABLE", "Draft pull requests are not supported in this repository.")
        pull_actions.set_draft(scope.platform, repository, issue, scope.bot, draft)
        return {"pullRequest": Typed("PullRequest", issue), "actor": Typed("Bot", scope.bot)}

    return mutate


def add_reaction(scope: Scope, given: Json) -> Json:
    """AddReaction."""
    subject = scope.node(given.get("subjectId"))
    content = CONTENTS.get(str(given.get("content")))
    if not isinstance(subject.thing, Issue | Comment | ReviewComment | Review) or content is None:
        raise GraphQLError("UNPROCESSABLE", "This subject can't be reacted to that way.")
    need_conversation(scope, subject.thing)
    reaction, _ = issue_actions.react(scope.platform, subject.thing, scope.bot, content)
    return {"reaction": Typed("Reaction", reaction), "subject": subject}


def need_conversation(scope: Scope, thing: Any) -> None:
    """The permission to write where a thing is."""
    if isinstance(thing, Issue | Comment):
        repository = scope.repository_of(thing)
        plain = repository.issues[thing.number].pull is None
        scope.need("issues:write" if plain or scope.principal.can("issues:write") else "pull_requests:write")
    else:
        scope.need("pull_requests:write")


def resolve_thread(resolved: bool) -> Callable[[Scope, Json], Json]:
    """ResolveReviewThread and unresolveReviewThread."""

    def mutate(scope: Scope, given: Json) -> Json:
        thread = scope.node(given.get("threadId"))
        if not isinstance(thread.thing, Thread):
            raise GraphQLError("NOT_FOUND", "Could not resolve to a PullRequestReviewThread.")
        scope.need("pull_requests:write")
        scope.need("contents:write")
        review_actions.set_resolved(scope.platform, thread.thing, scope.bot, resolved)
        return {"thread": thread}

    return mutate


def minimize(scope: Scope, given: Json) -> Json:
    """MinimizeComment."""
    subject = scope.node(given.get("subjectId"))
    classifier = given.get("classifier")
    if not isinstance(subject.thing, Comment | ReviewComment | Review) or classifier not in CLASSIFIERS:
        raise GraphQLError("UNPROCESSABLE", "This can't be minimized that way.")
    need_conversation(scope, subject.thing)
    subject.thing.minimized = str(classifier)
    return {"minimizedComment": subject}


MUTATIONS: dict[str, Callable[[Scope, Json], Json]] = {
    "markPullRequestReadyForReview": set_draft(draft=False),
    "convertPullRequestToDraft": set_draft(draft=True),
    "addReaction": add_reaction,
    "resolveReviewThread": resolve_thread(resolved=True),
    "unresolveReviewThread": resolve_thread(resolved=False),
    "minimizeComment": minimize,
}
