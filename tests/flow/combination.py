"""The other database and the other Redis for a world: servers of their own, as a team runs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.servers import RedisServer, new_database, running_redis


@dataclass
class Servers:
    """What a world uses instead of the file and the embedded server. Its Redis is the test's to kill and start."""

    database_url: str
    redis: RedisServer

    @property
    def settings(self) -> dict[str, str]:
        return {"DATABASE_URL": self.database_url, "REDIS_URL": self.redis.url}


@contextmanager
def running_servers() -> Iterator[Servers]:
    """A fresh database and a redis-server for one world: two worlds on one Redis would take each other's jobs."""
    with (
        TemporaryDirectory(prefix="iw-redis-") as directory,
        running_redis(Path(directory)) as redis,
        new_database() as database_url,
    ):
        yield Servers(database_url, redis)


@contextmanager
def chosen_servers(on_servers: bool) -> Iterator[Servers | None]:
    """What a world is given: None means the file and the embedded server."""
    if not on_servers:
        yield None
        return
    with running_servers() as servers:
        yield servers
