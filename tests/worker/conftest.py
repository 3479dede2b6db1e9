"""One simulated GitHub per module, one repository, database and worker per test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncEngine

from app.db.engine import Database
from app.db.pace import DatabasePace
from app.domain.labels import LabelNames
from app.domain.pace import FARTHEST_AHEAD
from app.github.access import GitHubAccess
from app.github.gateway import GitHubGateway
from simulators.github.control import Control
from simulators.github.rest.manifest import new_key_pair
from simulators.github.server import running
from tests.worker.bench import LABEL, Bench, Clock
from tests.worker.sandboxes import ScriptedSandboxes
from worker.parts import Limits, Parts

_numbers = itertools.count(1)
PRIVATE_KEY, PUBLIC_KEY = new_key_pair()
PERMISSIONS = {
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
    "workflows": "write",
}
EVENTS = [
    "issues",
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "pull_request_review_thread",
    "check_run",
]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with running(tmp_path_factory.mktemp("github")) as (_, control):
        for login in ("alice", "carol", "bob"):
            control.create_user(login)
        yield control


@pytest.fixture(scope="session")
def engine(on_servers: bool, empty_database: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncEngine:
    """One for all tests, whose databases follow each other at one place: it keeps the statements that it has compiled
    (a tenth of the time of a test that compiles its own). Empty between tests, so it belongs to no event loop.
    """
    place = tmp_path_factory.mktemp("bench") / "test.db"
    return Database(empty_database if on_servers else f"sqlite+aiosqlite:///{place}").engine


@pytest.fixture
def database_url(on_servers: bool, engine: AsyncEngine, database_url: str) -> str:
    """A database with all tables and no rows, where the engine looks for it."""
    if not on_servers:
        place = Path(engine.url.database or "")
        for left in place.parent.glob(f"{place.name}*"):
            left.unlink()
        Path(make_url(database_url).database or "").rename(place)
    return engine.url.render_as_string(hide_password=False)


@pytest.fixture
async def bench(
    simulated: Control, tmp_path: Path, database_url: str, engine: AsyncEngine
) -> AsyncIterator[Bench]:
    org = f"team-{next(_numbers)}"
    simulated.create_org(org, ["alice"])
    made = simulated.create_repo(org, "kit", {"README.md": "# Kit\n"}, private=False, by="alice")
    name = str(made["full_name"])
    simulated.set_collaborator(name, "carol", "write")
    simulated.set_collaborator(name, "bob", "read")
    simulated.create_label(name, "alice", LABEL)
    # Without an address: the bench takes deliveries from GitHub's own list.
    app = simulated.create_app(
        f"Issuewright {org}", org, PERMISSIONS, EVENTS, public_key=PUBLIC_KEY, webhook_secret="secret",
    )  # fmt: skip
    installation = simulated.install(app["id"], org, by="alice")
    clock, db, sandboxes = Clock(), Database(database_url, engine), ScriptedSandboxes()
    access = GitHubAccess(simulated.url, simulated.url, int(app["id"]), PRIVATE_KEY)
    # However fast the machine, a burst that is used up puts nothing off to a later moment: time passes at once.
    pace = DatabasePace(db, clock, clock.sleep, FARTHEST_AHEAD)
    # GitHub checks our signature's time by its own clock, which does not jump.
    github = GitHubGateway(access, lambda: datetime.now(UTC), pace, lambda _: None)
    parts = Parts(
        db=db, github=github, sandboxes=sandboxes, clock=clock, labels=LabelNames(),
        limits=Limits(4, 2, 8, "model", ("model",), 10.0, 150, 3600, 600, ()), home=tmp_path / "home", host_id="host",
        worker_id="w1", instance="test", web_url=simulated.url, token_key=b"key", model_ready=True, secrets=(),
    )  # fmt: skip
    yield Bench(
        simulated, name, int(made["id"]), Path(made["path"]), int(installation["id"]), parts, sandboxes, clock,
        tmp_path, int(app["id"]),
    )  # fmt: skip
    simulated.clear_faults()
    await github.aclose()
    await db.aclose()
