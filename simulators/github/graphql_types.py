"""Fields of GraphQL's object types, each a function of the world, the record and the arguments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from simulators.github.clock import iso, iso_or_none
from simulators.github.model import Issue, Repository, ReviewComment, Thread
from simulators.github.nodes import node_id
from simulators.github.shapes.issues import comment_json, issue_page
from simulators.github.shapes.pulls import mergeability, review_comment_json, review_json
from simulators.github.shapes.repositories import page_url
from simulators.github.world import World

Json = dict[str, Any]
Resolver = Callable[[World, Any, Json], Any]


@dataclass(frozen=True)
class Typed:
    """A record with the name of its GraphQL type."""

    kind: str
    thing: Any


def plain(function: Callable[[Any], Any]) -> Resolver:
    """A field that needs the record alone."""
    return lambda _world, thing, _arguments: function(thing)


def within(function: Callable[[World, Any], Any]) -> Resolver:
    """A field that needs the world too."""
    return lambda world, thing, _arguments: function(world, thing)


def connection(kind: str, things: Sequence[Any], arguments: Json) -> Json:
    """A connection: ``nodes``, ``edges``, ``totalCount``, ``pageInfo``; ``first``/``after`` or ``last``."""
    start = int(arguments["after"]) if str(arguments.get("after") or "").isdigit() else 0
    rest = list(things[start:])
    if arguments.get("last") is not None:
        first = max(len(rest) - int(arguments["last"]), 0)
        shown, start = rest[first:], start + first
    else:
        shown = rest[: min(int(arguments.get("first") or 100), 100)]
    end = start + len(shown)
    nodes = [Typed(kind, thing) for thing in shown]
    return {
        "nodes": nodes,
        "edges": [{"node": node, "cursor": str(start + at + 1)} for at, node in enumerate(nodes)],
        "totalCount": len(things),
        "pageInfo": {
            "hasNextPage": end < len(things),
            "hasPreviousPage": start > 0,
            "endCursor": str(end),
            "startCursor": str(start + 1),
        },
    }


def account(world: World, user_id: int | None) -> Typed | None:
    """An author; None for a ghost."""
    return None if user_id is None else Typed(world.users[user_id].kind, world.users[user_id])


def issue_at(pull: bool) -> Resolver:
    """``repository{issue(number:)}`` and ``pullRequest``."""

    def resolve(_world: World, repository: Repository, args: Json) -> Typed | None:
        issue = repository.issues.get(int(args.get("number") or 0))
        if issue is None or issue.deleted or (issue.pull is not None) != pull:
            return None
        return Typed("PullRequest" if pull else "Issue", issue)

    return resolve


def minimized(reason: str | None) -> str | None:
    """``minimizedReason`` is in lower case with dashes."""
    return reason.lower().replace("_", "-") if reason else None


def thread_comments(world: World, thread: Thread, args: Json) -> Json:
    """The comments of a thread."""
    found = [world.review_comments[key] for key in thread.comment_ids if key in world.review_comments]
    return connection("PullRequestReviewComment", found, args)


def thread_first(world: World, thread: Thread) -> ReviewComment | None:
    """The comment a thread began with."""
    return world.review_comments.get(thread.comment_ids[0]) if thread.comment_ids else None


def conversation(kind: str) -> dict[str, Resolver]:
    """What issues and pull requests share."""
    return {
        "id": plain(lambda i: node_id(kind, i.pull.id if i.pull else i.id)),
        "databaseId": plain(lambda i: i.pull.id if i.pull else i.id),
        "number": plain(lambda i: i.number),
        "title": plain(lambda i: i.title),
        "body": plain(lambda i: i.body or ""),
        "locked": plain(lambda i: i.locked),
        "url": within(lambda w, i: issue_page(w, w.repositories[i.repo_id], i)),
        "author": within(lambda w, i: account(w, i.user_id)),
        "createdAt": plain(lambda i: iso(i.created_at)),
        "updatedAt": plain(lambda i: iso(i.updated_at)),
        "closedAt": plain(lambda i: iso_or_none(i.closed_at)),
        "repository": within(lambda w, i: Typed("Repository", w.repositories[i.repo_id])),
        "comments": lambda _w, i, a: connection("IssueComment", i.comments, a),
        "closed": plain(lambda i: i.state == "closed"),
        "labels": lambda w, i, a: connection(
            "Label", [w.repositories[i.repo_id].labels[k] for k in i.label_ids], a
        ),
    }


def actor(kind: str) -> dict[str, Resolver]:
    """Accounts."""
    return {
        "id": plain(lambda u: node_id(kind, u.id)),
        "databaseId": plain(lambda u: u.id),
        "login": plain(lambda u: u.login.removesuffix("[bot]")),
        "url": within(lambda w, u: f"{w.base_url}/{u.login}"),
    }


def comment_fields(kind: str, url: Callable[[World, Any], str]) -> dict[str, Resolver]:
    """What the three kinds of comments share."""
    return {
        "id": plain(lambda c: node_id(kind, c.id)),
        "databaseId": plain(lambda c: c.id),
        "fullDatabaseId": plain(lambda c: str(c.id)),
        "body": plain(lambda c: c.body),
        "author": within(lambda w, c: account(w, c.user_id)),
        "editor": within(lambda w, c: account(w, c.editor_id)),
        "lastEditedAt": plain(lambda c: iso_or_none(c.edited_at)),
        "isMinimized": plain(lambda c: c.minimized is not None),
        "minimizedReason": plain(lambda c: minimized(c.minimized)),
        "url": within(url),
    }


def pull_state(issue: Issue) -> str:
    """OPEN, CLOSED or MERGED."""
    return "MERGED" if issue.pull and issue.pull.merged_at else issue.state.upper()


def mergeable(world: World, issue: Issue) -> str:
    """MERGEABLE, CONFLICTING or UNKNOWN."""
    if issue.pull is None:
        return "UNKNOWN"
    found = mergeability(world.repositories[issue.repo_id], issue, issue.pull)[0]
    return {True: "MERGEABLE", False: "CONFLICTING", None: "UNKNOWN"}[found]


PULL_FIELDS: dict[str, Resolver] = {
    **conversation("PullRequest"),
    "state": plain(pull_state),
    "isDraft": plain(lambda i: i.pull.draft),
    "merged": plain(lambda i: i.pull.merged_at is not None),
    "mergeable": within(mergeable),
    "headRefName": plain(lambda i: i.pull.head_ref),
    "headRefOid": plain(lambda i: i.pull.head_sha),
    "baseRefName": plain(lambda i: i.pull.base_ref),
    "baseRefOid": plain(lambda i: i.pull.base_sha),
    "reviewThreads": lambda _w, i, a: connection("PullRequestReviewThread", i.pull.threads, a),
    "reviews": lambda _w, i, a: connection("PullRequestReview", i.pull.reviews, a),
    "reviewDecision": plain(
        lambda i: next(
            (r.state for r in reversed(i.pull.reviews) if r.state in ("APPROVED", "CHANGES_REQUESTED")), None
        )
    ),
}

TYPES: dict[str, dict[str, Resolver]] = {
    "Repository": {
        "id": plain(lambda r: node_id("Repository", r.id)),
        "databaseId": plain(lambda r: r.id),
        "name": plain(lambda r: r.name),
        "nameWithOwner": within(lambda w, r: w.full_name(r)),
        "isPrivate": plain(lambda r: r.private),
        "isArchived": plain(lambda r: r.archived),
        "url": within(page_url),
        "owner": within(lambda w, r: account(w, r.owner_id)),
        "issue": issue_at(pull=False),
        "pullRequest": issue_at(pull=True),
    },
    "Issue": {**conversation("Issue"), "state": plain(lambda i: i.state.upper())},
    "PullRequest": PULL_FIELDS,
    "IssueComment": comment_fields("IssueComment", lambda w, c: str(comment_json(w, c)["html_url"])),
    "PullRequestReviewComment": {
        **comment_fields("PullRequestReviewComment", lambda w, c: str(review_comment_json(w, c)["html_url"])),
        "path": plain(lambda c: c.path),
        "line": plain(lambda c: None if c.position is None else c.line),
        "originalLine": plain(lambda c: c.original_line),
        "outdated": plain(lambda c: c.position is None),
        "diffHunk": plain(lambda c: c.diff_hunk),
    },
    "PullRequestReview": {
        **comment_fields("PullRequestReview", lambda w, c: str(review_json(w, c)["html_url"])),
        "state": plain(lambda r: r.state),
    },
    "PullRequestReviewThread": {
        "id": plain(lambda t: node_id("PullRequestReviewThread", t.id)),
        "isResolved": plain(lambda t: t.resolved_by is not None),
        "resolvedBy": within(lambda w, t: account(w, t.resolved_by)),
        "isOutdated": within(
            lambda w, t: (first := thread_first(w, t)) is not None and first.position is None
        ),
        "path": within(lambda w, t: (first := thread_first(w, t)) and first.path),
        "line": within(lambda w, t: (first := thread_first(w, t)) and first.line),
        "comments": thread_comments,
    },
    "Label": {
        "id": plain(lambda x: node_id("Label", x.id)),
        "name": plain(lambda x: x.name),
        "color": plain(lambda x: x.color),
    },
    "Reaction": {
        "id": plain(lambda x: node_id("Reaction", x.id)),
        "databaseId": plain(lambda x: x.id),
        "content": plain(
            lambda x: {"+1": "THUMBS_UP", "-1": "THUMBS_DOWN"}.get(x.content, x.content.upper())
        ),
    },
    "User": actor("User"),
    "Bot": actor("Bot"),
    "Organization": actor("Organization"),
}
