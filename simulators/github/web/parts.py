"""Pieces that several pages share."""

from simulators.github.git import FileChange
from simulators.github.model import REACTIONS, CheckRun, Issue, Reaction, Repository
from simulators.github.shapes.issues import issue_page
from simulators.github.web.html import Child, Html, el, join, link
from simulators.github.world import World

EMOJI = dict(zip(REACTIONS, ["👍", "👎", "😄", "🎉", "😕", "❤️", "🚀", "👀"], strict=True))
CHECK_SIGNS = {
    "success": "✓",
    "failure": "✗",
    "timed_out": "✗",
    "cancelled": "◻",
    "neutral": "◼",
    "skipped": "◻",
    "action_required": "!",
}
MAX_DIFF_LINES = 4000


def page(title: str, *content: Child, crumbs: Child = None) -> Html:
    """A whole page."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", title),
        el("link", rel="stylesheet", href="/_static/style.css"),
    )
    header = el("header", link("/", "Simulated GitHub", cls="home"), crumbs)
    return Html(f"<!doctype html>\n{el('html', head, el('body', header, el('main', *content)), lang='en')}")


def base_path(world: World, repository: Repository) -> str:
    """Path of a repository's pages."""
    return f"/{world.full_name(repository)}"


def repository_page(
    world: World, repository: Repository, title: str, *content: Child, tab: str = "code"
) -> Html:
    """A page below a repository, with its tabs."""
    root = base_path(world, repository)
    owner = world.users[repository.owner_id].login
    counts = {
        "issues": sum(
            1 for i in repository.issues.values() if not i.pull and i.state == "open" and not i.deleted
        ),
        "pulls": sum(1 for i in repository.issues.values() if i.pull and i.state == "open" and not i.deleted),
    }
    tabs = [
        ("code", "Code", root),
        ("issues", "Issues", f"{root}/issues"),
        ("pulls", "Pull requests", f"{root}/pulls"),
    ]
    nav = el(
        "nav",
        [
            link(
                href,
                label,
                el("span", counts[key], cls="count") if key in counts else None,
                cls="on" if key == tab else None,
            )
            for key, label, href in tabs
        ],
        cls="tabs",
    )
    visibility = el("span", "Private" if repository.private else "Public", cls="chip")
    crumbs = el(
        "span",
        link(f"/{owner}", owner),
        " / ",
        link(root, el("b", repository.name)),
        " ",
        visibility,
        cls="crumbs",
    )
    return page(f"{title} · {world.full_name(repository)}", nav, *content, crumbs=crumbs)


def user_link(world: World, user_id: int | None) -> Html:
    """A person's name; ghost when there is none."""
    if user_id is None:
        return el("b", "ghost")
    user = world.users[user_id]
    login = user.login.removesuffix("[bot]")
    bot = el("span", "bot", cls="chip") if user.kind == "Bot" else None
    return join([el("b", login), bot])


def labels(repository: Repository, issue: Issue) -> Html:
    """The labels of an issue as coloured pills."""
    found = [repository.labels[key] for key in issue.label_ids if key in repository.labels]
    return join(
        el("span", label.name, cls="label", style=f"--c:#{label.color}", title=label.description)
        for label in found
    )


def reactions(given: list[Reaction]) -> Html | None:
    """Emoji with counts."""
    counts = {name: sum(1 for one in given if one.content == name) for name in REACTIONS}
    shown = [el("span", EMOJI[name], " ", count, cls="reaction") for name, count in counts.items() if count]
    return el("div", shown, cls="reactions") if shown else None


def state_chip(issue: Issue) -> Html:
    """Open, Closed, Merged, Draft."""
    word = "Open" if issue.state == "open" else "Closed"
    if issue.pull and issue.pull.merged_at:
        word = "Merged"
    elif issue.pull and issue.pull.draft and issue.state == "open":
        word = "Draft"
    return el("span", word, cls=f"state {word.lower()}")


def issue_row(world: World, repository: Repository, issue: Issue) -> Html:
    """One line of a list of issues."""
    href = issue_page(world, repository, issue).removeprefix(world.base_url)
    small = el(
        "small", f"#{issue.number} by ", user_link(world, issue.user_id), f" · {len(issue.comments)} comments"
    )
    return el(
        "li", state_chip(issue), " ", link(href, issue.title), " ", labels(repository, issue), el("br"), small
    )


def check_sign(run: CheckRun) -> Html:
    """A mark for a check's state."""
    if run.status != "completed":
        return el("span", "●", cls="check running", title=run.status)
    conclusion = run.conclusion or "neutral"
    return el("span", CHECK_SIGNS.get(conclusion, "?"), cls=f"check {conclusion}", title=conclusion)


def diff(change: FileChange) -> Html:
    """One changed file."""
    lines = change.patch.splitlines()[:MAX_DIFF_LINES]
    kinds = {"+": "add", "-": "del", "@": "hunk"}
    body = el("pre", [el("span", f"{line}\n", cls=kinds.get(line[:1])) for line in lines], cls="diff")
    name = change.path if not change.previous else f"{change.previous} → {change.path}"
    summary = el(
        "summary",
        el("code", name),
        f" {change.status} ",
        el("i", f"+{change.additions}", cls="plus"),
        " ",
        el("i", f"−{change.deletions}", cls="minus"),
    )
    return el(
        "details",
        summary,
        body if lines else el("p", "Binary file, or no content change."),
        open="",
        cls="file",
    )
