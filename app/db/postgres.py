"""Connections to PostgreSQL: how they are opened, and when one from the pool is tried before it is used."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

IDLE_S = 5.0
"""One that was used less long ago is taken as it is: the system tells us of a server that went away, and what it does
not tell in that time (a cut cable) can happen within a transaction as well.
"""
_LAST_USED = "issuewright_last_used"


def create_postgres_engine(url: str) -> AsyncEngine:
    engine = create_async_engine(
        url,
        pool_size=8,
        max_overflow=8,
        pool_use_lifo=True,  # few connections that know our statements, instead of all that forget them
        pool_timeout=2,
        connect_args={
            "timeout": 2,
            "prepared_statement_cache_size": 500,  # the default of 100 is less than we have
            "command_timeout": 30,
            "server_settings": {
                "statement_timeout": "30000",
                "lock_timeout": "5000",
                "application_name": "issuewright",
            },
        },
    )
    _try_before_use(engine.sync_engine)
    return engine


def _try_before_use(engine: Engine) -> None:
    """SQLAlchemy's own `pool_pre_ping` asks the server three times before each transaction, which is a third of what a
    short one sends at all. This asks only where the answer is not known.
    """

    def used(_connection: Any, record: Any) -> None:
        record.info[_LAST_USED] = time.monotonic()

    def taken(connection: Any, record: Any, _proxy: Any) -> None:
        last_used = record.info.get(_LAST_USED)
        if last_used is None:
            return  # just opened
        if engine.dialect.is_disconnect(_NO_ERROR, connection, None):
            raise InvalidatePoolError
        if time.monotonic() - last_used < IDLE_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError from error

    event.listen(engine, "checkin", used)
    event.listen(engine, "checkout", taken)


_NO_ERROR: Any = None
"""Asked with a connection, the dialect looks at nothing else."""
