"""Accounts, Apps and repositories come into being."""

import re
import secrets
from collections.abc import Mapping, Sequence

from simulators.github.git import BareRepository, Person
from simulators.github.model import RESERVED_LOGINS, App, Label, Repository, User
from simulators.github.platform import Platform

DEFAULT_LABELS = (
    ("bug", "d73a4a", "Something isn't working"),
    ("documentation", "0075ca", "Improvements or additions to documentation"),
    ("duplicate", "cfd3d7", "This issue or pull request already exists"),
    ("enhancement", "a2eeef", "New feature or request"),
    ("good first issue", "7057ff", "Good for newcomers"),
    ("help wanted", "008672", "Extra attention is needed"),
    ("invalid", "e4e669", "This doesn't seem right"),
    ("question", "d876e3", "Further information is requested"),
    ("wontfix", "ffffff", "This will not be worked on"),
)
LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})(?:\[bot\])?")


def create_user(platform: Platform, login: str, *, kind: str = "User", user_id: int | None = None) -> User:
    """A new account; ValueError when the login is taken, reserved or not a login."""
    world = platform.world
    if not LOGIN.fullmatch(login) or login.lower() in RESERVED_LOGINS:
        raise ValueError(f"{login!r} can't be a login")
    if world.find_user(login) or user_id in world.users:
        raise ValueError(f"{login} exists already")
    new_id = user_id or world.new_id()
    email = f"{new_id}+{login}@users.noreply.github.com"
    user = User(new_id, login, kind, login.capitalize(), email, world.now())
    world.users[new_id] = user
    return user


def create_app(
    platform: Platform,
    name: str,
    owner: User,
    public_key_pem: str,
    permissions: Mapping[str, str],
    events: Sequence[str],
) -> App:
    """A registered App with its bot account; the id of one is not the id of the other."""
    world = platform.world
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "app"
    bot = create_user(platform, f"{slug}[bot]", kind="Bot")
    app_id = world.new_id() % 10_000_000
    app = App(
        app_id,
        slug,
        name,
        owner.id,
        bot.id,
        world.new_id(),
        f"Iv23li{secrets.token_hex(7)}",
        secrets.token_hex(20),
        public_key_pem,
        {"metadata": "read", **permissions},
        list(events),
        world.now(),
    )
    bot.app_id = app_id
    world.apps[app_id] = app
    return app


def create_repository(
    platform: Platform, owner: User, name: str, *, default_branch: str = "main"
) -> Repository:
    """An empty repository with GitHub's default labels; ValueError when the name is taken or no name."""
    world = platform.world
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name) or name.endswith(".git") or name in (".", ".."):
        raise ValueError(f"{name!r} can't be a repository name")
    if world.find_repository(owner.login, name):
        raise ValueError(f"{owner.login}/{name} exists already")
    repository_id = world.new_id()
    git = BareRepository(world.directory / "repositories" / f"{repository_id}.git")
    git.create(platform.hooks_directory, default_branch)
    now = world.now()
    repository = Repository(repository_id, owner.id, name, git, now, now, now, default_branch=default_branch)
    for label, color, text in DEFAULT_LABELS:
        found = Label(world.new_id(), label, color, text, default=True)
        repository.labels[found.id] = found
    world.repositories[repository_id] = repository
    world.former_names.pop((owner.login.lower(), name.lower()), None)
    return repository


def identity(platform: Platform, user: User) -> Person:
    """How a user signs a commit made now."""
    return Person(user.name, user.email, f"{int(platform.world.now().timestamp())} +0000")


def commit_files(
    platform: Platform,
    repository: Repository,
    author: User,
    files: Mapping[str, str | None],
    message: str,
    parent: str | None,
) -> str:
    """Stores a commit on top of ``parent`` (None: the first one); a path with None is removed."""
    git = repository.git
    entries = [
        ("100644", path, None if text is None else git.write_blob(text.encode("utf-8", "surrogateescape")))
        for path, text in files.items()
    ]
    tree = git.write_tree(parent, entries)
    who = identity(platform, author)
    return git.write_commit(tree, [parent] if parent else [], message, who, who)
