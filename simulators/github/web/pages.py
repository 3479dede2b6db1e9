"""Pages of repositories, issues and checks."""

from collections.abc import Iterable
from datetime import datetime
from urllib.parse import quote

from simulators.github.clock import iso
from simulators.github.git import EMPTY_TREE
from simulators.github.model import CheckRun, Issue, Repository, User
from simulators.github.web.html import Child, Html, el, join, link
from simulators.github.web.markdown import render
from simulators.github.web.parts import (
    base_path,
    check_sign,
    diff,
    issue_row,
    labels,
    page,
    reactions,
    repository_page,
    state_chip,
    user_link,
)
from simulators.github.world import World

MAX_FILE = 1_000_000


def home(world: World) -> Html:
    """All repositories and Apps."""
    live = [found for found in world.repositories.values() if not found.deleted]
    rows = [
        el("li", link(base_path(world, one), world.full_name(one)), " ", one.description or "")
        for one in live
    ]
    apps = [el("li", link(f"/apps/{app.slug}", app.name)) for app in world.apps.values()]
    return page(
        "Simulated GitHub",
        el("h1", "Repositories"),
        el("ul", rows, cls="rows"),
        el("h2", "GitHub Apps") if apps else None,
        el("ul", apps, cls="rows") if apps else None,
    )


def profile(world: World, user: User) -> Html:
    """An account's repositories."""
    owned = [one for one in world.repositories.values() if one.owner_id == user.id and not one.deleted]
    rows = [el("li", link(base_path(world, one), one.name)) for one in owned]
    return page(user.login, el("h1", user.login), el("p", user.kind), el("ul", rows, cls="rows"))


def tree(world: World, repository: Repository, ref: str | None = None, path: str = "") -> Html | None:
    """A directory, with the README below the top one; None when it is not there."""
    git = repository.git
    root = base_path(world, repository)
    branch = ref or repository.default_branch
    commit = git.find_commit_sha(branch)
    if commit is None:
        empty = el("p", "This repository is empty.") if ref is None else None
        return repository_page(world, repository, repository.name, empty) if empty else None
    entries = git.tree(commit, path=f"{path}/" if path else None)
    rows = [
        el(
            "li",
            "📁 " if e.kind == "tree" else "📄 ",
            link(
                f"{root}/{'tree' if e.kind == 'tree' else 'blob'}/{quote(branch)}/{quote(e.path)}",
                e.path.rsplit("/", 1)[-1],
            ),
        )
        for e in sorted(entries, key=lambda e: (e.kind != "tree", e.path))
    ]
    readme = next((e for e in entries if e.path.lower() == "readme.md"), None)
    text = render(git.blob(readme.sha).decode("utf-8", "replace")) if readme else None
    branches = [
        link(
            f"{root}/tree/{quote(name.removeprefix('refs/heads/'))}",
            name.removeprefix("refs/heads/"),
            cls="chip",
        )
        for name in git.refs()
    ]
    head = git.commit(commit)
    return repository_page(
        world,
        repository,
        path or repository.name,
        el("p", join(branches), cls="branches"),
        el(
            "p",
            link(f"{root}/commit/{commit}", el("code", commit[:7])),
            " ",
            head.message.splitlines()[0] if head.message else "",
        ),
        el("ul", rows, cls="rows"),
        el("article", text, cls="box markdown") if text else None,
    )


def blob(world: World, repository: Repository, ref: str, path: str) -> Html | None:
    """A file; Markdown is rendered; None when it is not there."""
    commit = repository.git.find_commit_sha(ref)
    entries = repository.git.tree(commit, path=path) if commit else []
    if not entries or entries[0].kind != "blob":
        return None
    text = repository.git.blob(entries[0].sha)[:MAX_FILE].decode("utf-8", "replace")
    shown = el("article", render(text), cls="box markdown") if path.lower().endswith(".md") else None
    return repository_page(
        world,
        repository,
        path,
        el("h2", el("code", path), f" at {ref}"),
        shown,
        el("pre", text, cls="source"),
    )


def issue_list(world: World, repository: Repository, *, pulls: bool) -> Html:
    """Issues or pull requests, open ones first, newest first."""
    found = [
        i
        for i in repository.issues.values()
        if (i.pull is not None) == pulls and not i.deleted and not i.moved_to
    ]
    found.sort(key=lambda i: (i.state != "open", -i.number))
    title = "Pull requests" if pulls else "Issues"
    rows = [issue_row(world, repository, issue) for issue in found]
    return repository_page(
        world,
        repository,
        title,
        el("h1", title),
        el("ul", rows, cls="rows") if rows else el("p", "Nothing here."),
        tab="pulls" if pulls else "issues",
    )


def box(
    world: World, user_id: int | None, when: datetime, body: Html, foot: Child, anchor: str | None = None
) -> Html:
    """A comment."""
    head = el("div", user_link(world, user_id), " · ", el("time", iso(when)), cls="head")
    return el("section", head, el("div", body, cls="markdown"), foot, cls="box", id=anchor)


def conversation(world: World, issue: Issue) -> Html:
    """Comments, reviews and what happened, in order."""
    lines: list[tuple[datetime, int, Html]] = []
    for entry in issue.timeline:
        text = el(
            "p", user_link(world, entry.user_id), f" {entry.text} · ", el("time", iso(entry.at)), cls="event"
        )
        lines.append((entry.at, len(lines), text))
    for comment in issue.comments:
        body = render(comment.body)
        if comment.minimized:
            body = el("details", el("summary", f"Hidden as {comment.minimized.lower()}"), body)
        shown = box(
            world,
            comment.user_id,
            comment.created_at,
            body,
            reactions(comment.reactions),
            f"issuecomment-{comment.id}",
        )
        lines.append((comment.created_at, len(lines), shown))
    for review in issue.pull.reviews if issue.pull else []:
        remarks = [one for one in issue.pull.comments if one.review_id == review.id] if issue.pull else []
        inner = [
            el(
                "div",
                el("code", f"{one.path}:{one.original_line}"),
                " outdated" if one.position is None else None,
                " resolved" if world.threads[one.thread_id].resolved_by else None,
                el("div", render(one.body), cls="markdown"),
                reactions(one.reactions),
                cls="remark",
                id=f"discussion_r{one.id}",
            )
            for one in remarks
        ]
        word = el("p", el("i", review.state.lower().replace("_", " ")))
        when = review.submitted_at or issue.updated_at
        shown = box(
            world,
            review.user_id,
            when,
            join([word, render(review.body)]),
            inner,
            f"pullrequestreview-{review.id}",
        )
        lines.append((when, len(lines), shown))
    return join(shown for _, _, shown in sorted(lines, key=lambda line: line[:2]))


def comment_form(world: World, repository: Repository, issue: Issue) -> Html:
    """Anybody may be spoken for: whoever looks at a simulation plays all its people."""
    kind = "pull" if issue.pull else "issues"
    people = [user.login for user in world.users.values() if user.kind == "User"]
    return el(
        "form",
        el("textarea", name="body", rows="4", required="", placeholder="A comment, or /agent help"),
        el("button", "Comment"),
        " as ",
        el("select", [el("option", login) for login in people], name="by"),
        cls="box comment",
        method="post",
        action=f"{base_path(world, repository)}/{kind}/{issue.number}/comments",
    )


def issue_head(world: World, repository: Repository, issue: Issue) -> Html:
    """Title, state and labels."""
    title = el("h1", issue.title, " ", el("small", f"#{issue.number}"))
    pull = issue.pull
    branches = (
        el("span", " · ", el("code", pull.head_ref), " → ", el("code", pull.base_ref)) if pull else None
    )
    return join(
        [
            title,
            el(
                "p",
                state_chip(issue),
                " ",
                user_link(world, issue.user_id),
                branches,
                " ",
                labels(repository, issue),
            ),
        ]
    )


def issue_page_of(world: World, repository: Repository, issue: Issue) -> Html:
    """An issue."""
    first = box(world, issue.user_id, issue.created_at, render(issue.body), reactions(issue.reactions))
    talk = [first, conversation(world, issue), comment_form(world, repository, issue)]
    head = issue_head(world, repository, issue)
    return repository_page(world, repository, issue.title, head, *talk, tab="issues")


def runs_of(repository: Repository, sha: str) -> list[CheckRun]:
    """The latest check run of each name on a head."""
    return list({(r.app_id, r.name): r for r in repository.check_runs.values() if r.head_sha == sha}.values())


def check_rows(world: World, repository: Repository, runs: Iterable[CheckRun]) -> Html:
    """A list of checks."""
    root = base_path(world, repository)
    rows = [
        el(
            "li",
            check_sign(run),
            " ",
            link(f"{root}/runs/{run.id}", run.name),
            " ",
            el("small", run.title or run.conclusion or run.status),
        )
        for run in runs
    ]
    return el("ul", rows, cls="rows") if rows else el("p", "No checks.")


def pull_page(world: World, repository: Repository, issue: Issue, tab: str) -> Html | None:
    """A pull request: conversation, commits, files, checks; None for another tab."""
    pull = issue.pull
    if pull is None:
        return None
    git = repository.git
    root = f"{base_path(world, repository)}/pull/{issue.number}"
    base = git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
    files = git.changes(base, pull.head_sha)
    runs = runs_of(repository, pull.head_sha)
    body: Html
    if tab == "":
        first = box(world, issue.user_id, issue.created_at, render(issue.body), reactions(issue.reactions))
        checks = [el("h2", "Checks"), check_rows(world, repository, runs)]
        body = join([first, conversation(world, issue), *checks, comment_form(world, repository, issue)])
    elif tab == "commits":
        rows = [
            commit_row(world, repository, sha) for sha in git.log(f"{pull.base_sha}..{pull.head_sha}")[::-1]
        ]
        body = el("ul", rows, cls="rows")
    elif tab == "files":
        body = join(diff(change) for change in files)
    elif tab == "checks":
        body = check_rows(world, repository, runs)
    else:
        return None
    names = {
        "": "Conversation",
        "commits": "Commits",
        "files": f"Files changed {len(files)}",
        "checks": f"Checks {len(runs)}",
    }
    tabs = el(
        "nav",
        [
            link(f"{root}/{key}".rstrip("/"), name, cls="on" if key == tab else None)
            for key, name in names.items()
        ],
        cls="tabs small",
    )
    return repository_page(
        world, repository, issue.title, issue_head(world, repository, issue), tabs, body, tab="pulls"
    )


def commit_row(world: World, repository: Repository, sha: str) -> Html:
    """One commit of a list."""
    commit = repository.git.commit(sha)
    verified = el("span", "Verified", cls="chip") if sha in repository.verified_commits else None
    href = f"{base_path(world, repository)}/commit/{sha}"
    subject = (commit.message.splitlines() or [""])[0]
    return el(
        "li",
        link(href, el("code", sha[:7])),
        " ",
        subject,
        " ",
        el("small", commit.author.name),
        " ",
        verified,
    )


def commit_page(world: World, repository: Repository, revision: str) -> Html | None:
    """A commit and its changes; None when it is not there."""
    sha = repository.git.find_commit_sha(revision)
    if sha is None:
        return None
    commit = repository.git.commit(sha)
    changes = repository.git.changes(commit.parents[0] if commit.parents else EMPTY_TREE, sha)
    head = el("ul", commit_row(world, repository, sha), cls="rows")
    return repository_page(
        world,
        repository,
        sha[:7],
        head,
        el("pre", commit.message, cls="source"),
        join(diff(c) for c in changes),
    )


def check_page(world: World, repository: Repository, run: CheckRun) -> Html:
    """A check run: output, annotations, buttons."""
    notes = [
        el(
            "li",
            el("code", f"{a.get('path')}:{a.get('start_line')}"),
            f" {a.get('annotation_level')}: ",
            str(a.get("message", "")),
        )
        for a in run.annotations
    ]
    buttons = [el("span", action["label"], cls="chip", title=action["description"]) for action in run.actions]
    return repository_page(
        world,
        repository,
        run.name,
        el("h1", check_sign(run), " ", run.name),
        el(
            "p",
            f"{run.status} {run.conclusion or ''} · ",
            world.apps[run.app_id].name,
            " · ",
            el("code", run.head_sha[:7]),
        ),
        el("p", buttons) if buttons else None,
        el("p", link(run.details_url, "Details")) if run.details_url else None,
        el("h2", run.title) if run.title else None,
        el("article", render(run.summary), render(run.text), cls="box markdown")
        if run.summary or run.text
        else None,
        el("ul", notes, cls="rows") if notes else None,
        tab="pulls",
    )
