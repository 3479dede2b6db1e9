from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine

from app.db.engine import Database
from app.db.migrate import MigrationFailed, migrate, migration_transaction
from app.db.models import Base
from app.db.reach import require_writable
from app.db.schema import STEPS, Unreachable, known_revisions, require_current_schema, schema_state
from app.domain.errors import SettingsError
from tests.cli.running import protect
from tests.servers import execute, new_database

POSTGRES = os.environ.get("ISSUEWRIGHT_TEST_POSTGRES_URL")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "issuewright.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path}"


def shape(connection: Connection) -> dict[str, Any]:
    """Everything the database knows about its tables, in a form that compares."""
    found = inspect(connection)
    tables = sorted(set(found.get_table_names()) - {"alembic_version"})
    return {
        table: {
            # A later release adds its columns at the end.
            "columns": sorted((c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(table)),
            "key": found.get_pk_constraint(table)["constrained_columns"],
            "parents": sorted(map(str, found.get_foreign_keys(table))),
            "unique": sorted(
                str((u["name"], u["column_names"])) for u in found.get_unique_constraints(table)
            ),
            "checks": sorted(str((c["name"], c["sqltext"])) for c in found.get_check_constraints(table)),
            "indexes": sorted(map(index_shape, found.get_indexes(table))),
        }
        for table in tables
    }


def index_shape(index: Any) -> str:
    where = {name: str(value) for name, value in index.get("dialect_options", {}).items()}
    return str((index["name"], index["column_names"], index["unique"], where))


async def shape_of(url: str) -> dict[str, Any]:
    engine = create_async_engine(url)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(shape)
    finally:
        await engine.dispose()


def parent_and_child(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE probe_parent (id INTEGER PRIMARY KEY, name VARCHAR(10))")
        db.execute(
            "CREATE TABLE probe_child (id INTEGER PRIMARY KEY, parent_id INTEGER "
            "REFERENCES probe_parent(id) ON DELETE CASCADE)"
        )
        db.execute("INSERT INTO probe_parent VALUES (1, 'a')")
        db.executemany("INSERT INTO probe_child VALUES (?, 1)", [(1,), (2,)])
        db.commit()


async def test_new_database_gets_exactly_the_tables_of_the_models(url: str, tmp_path: Path) -> None:
    assert await schema_state(url) == "empty"
    assert await migrate(url)
    assert await schema_state(url) == "current"
    direct = f"sqlite+aiosqlite:///{tmp_path / 'direct.db'}"
    engine = create_async_engine(direct)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await engine.dispose()
    assert await shape_of(url) == await shape_of(direct)


async def test_autogenerate_finds_no_difference_to_the_models(url: str) -> None:
    await migrate(url)
    assert await differences(url) == []


async def differences(url: str) -> list[Any]:
    def compare(connection: Connection) -> list[Any]:
        return list(
            compare_metadata(MigrationContext.configure(connection, {"compare_type": True}), Base.metadata)
        )

    engine = create_async_engine(url)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(compare)
    finally:
        await engine.dispose()


async def test_second_migrate_does_nothing_and_makes_no_backup(url: str, path: Path) -> None:
    await migrate(url)
    assert await migrate(url) == []
    assert list(path.parent.glob("*.backup")) == []


async def test_asking_for_the_state_makes_no_file(url: str, path: Path) -> None:
    assert await schema_state(url) == "empty"
    assert not path.parent.exists()
    with pytest.raises(SettingsError, match="run `issuewright migrate`"):
        await require_current_schema(url)


async def test_sqlite_file_that_can_not_be_opened_is_a_wrong_setting(
    path: Path, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path.mkdir(parents=True)
    for use in (migrate, require_current_schema):
        with pytest.raises(SettingsError, match=r"DATABASE_URL: .*issuewright.db can't be used \(.+\); .+"):
            await use(url)
    assert capfd.readouterr().err == "", "a driver's thread tells nothing of its own"


async def test_sqlite_file_of_another_kind_is_a_wrong_setting_and_stays(path: Path, url: str) -> None:
    path.parent.mkdir()
    path.write_text("no database\n" * 100)
    with pytest.raises(SettingsError, match=r"DATABASE_URL: .* can't be used \(file is not a database\)"):
        await migrate(url)
    assert path.read_text() == "no database\n" * 100


async def test_directory_that_can_not_be_made_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"DATABASE_URL: .* can't be used"):
        await migrate(f"sqlite+aiosqlite:///{tmp_path}/file/issuewright.db")


async def test_server_that_does_not_answer_is_told_by_its_setting_and_may_come_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(
        Unreachable, match=rf"DATABASE_URL: .*127.0.0.1:{port}/.* can't be used .*see that it runs"
    ):
        await migrate(f"postgresql+asyncpg://user:word@127.0.0.1:{port}/name")


async def test_option_that_the_driver_does_not_know_is_a_wrong_setting() -> None:
    for use in (migrate, require_current_schema):
        with pytest.raises(SettingsError, match=r"DATABASE_URL: .* can't be used .*'sslmode'.*ssl=require"):
            await use("postgresql+asyncpg://user:word@127.0.0.1:9/name?sslmode=require")


@pytest.mark.parametrize(
    "option", ["ssl=perhaps", "port=x", "command_timeout=x", "prepared_statement_cache_size=x"]
)
async def test_option_with_a_value_that_the_driver_does_not_know_is_a_wrong_setting(option: str) -> None:
    with pytest.raises(SettingsError, match=r"DATABASE_URL: .* can't be used"):
        await require_current_schema(f"postgresql+asyncpg://user:word@127.0.0.1:9/name?{option}")


async def test_migrators_at_the_same_time_apply_each_step_once(url: str) -> None:
    applied = await asyncio.gather(*(migrate(url) for _ in range(4)))
    assert sorted(map(len, applied))[:3] == [0, 0, 0]
    assert await schema_state(url) == "current"


async def test_database_of_a_newer_release_is_refused_untouched(url: str, path: Path) -> None:
    await migrate(url)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE alembic_version SET version_num = '29990101_0000'")
        db.commit()
    assert await schema_state(url) == "newer"
    with pytest.raises(SettingsError, match="newer release"):
        await migrate(url)
    with pytest.raises(SettingsError, match="newer release"):
        await require_current_schema(url)


async def test_batch_change_of_a_parent_table_keeps_its_children(url: str, path: Path) -> None:
    await migrate(url)
    parent_and_child(path)
    async with migration_transaction(url) as connection:
        # What alembic's batch mode does on SQLite: copy, drop, rename.
        for statement in (
            "CREATE TABLE _new (id INTEGER PRIMARY KEY, name VARCHAR(99))",
            "INSERT INTO _new SELECT * FROM probe_parent",
            "DROP TABLE probe_parent",
            "ALTER TABLE _new RENAME TO probe_parent",
        ):
            await connection.execute(text(statement))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM probe_child").fetchone() == (2,)


async def test_change_that_orphans_rows_is_rolled_back(url: str, path: Path) -> None:
    await migrate(url)
    parent_and_child(path)
    with pytest.raises(MigrationFailed, match="probe_child"):
        async with migration_transaction(url) as connection:
            await connection.execute(text("DELETE FROM probe_parent"))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM probe_parent").fetchone() == (1,)


async def test_failing_step_leaves_the_old_schema(url: str, path: Path) -> None:
    await migrate(url)
    with pytest.raises(RuntimeError):
        await half_a_step(url)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name='half'").fetchone() == (0,)


async def half_a_step(url: str) -> None:
    async with migration_transaction(url) as connection:
        await connection.execute(text("CREATE TABLE half (id INTEGER)"))
        raise RuntimeError("died here")


async def test_older_database_with_rows_is_copied_before_it_is_changed(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await migrate(url)
    add_row(path)
    with closing(sqlite3.connect(path)) as db:
        (old,) = db.execute("SELECT version_num FROM alembic_version").fetchone()
    monkeypatch.setattr("app.db.schema.STEPS", steps_with_one_more(tmp_path / "steps", old))
    assert await schema_state(url) == "older"
    assert await migrate(url) == ["29981231_2359"]
    assert await schema_state(url) == "current"
    (backup,) = path.parent.glob("*.backup")
    for file in (path, backup):
        with closing(sqlite3.connect(file)) as db:
            assert db.execute("SELECT id FROM delivery").fetchall() == [("guid-1",)]
    with closing(sqlite3.connect(backup)) as db:
        assert db.execute("SELECT version_num FROM alembic_version").fetchone() == (old,)


async def test_misspelt_state_can_not_be_stored(url: str) -> None:
    await migrate(url)
    database = Database(url)
    with pytest.raises(IntegrityError):
        async with database.write() as session:
            await session.execute(
                text(
                    "INSERT INTO delivery (id, event, headers, body, received_at, state, attempts) "
                    f"VALUES ('x', 'ping', '{{}}', x'00', '{NOW}', 'recieved', 0)"
                )
            )
    await database.aclose()


@pytest.mark.needs_postgres
@pytest.mark.skipif(POSTGRES is None, reason="no ISSUEWRIGHT_TEST_POSTGRES_URL")
async def test_database_that_a_server_does_not_have_is_a_wrong_setting() -> None:
    with pytest.raises(SettingsError, match=r"DATABASE_URL: .* can't be used .*does not exist"):
        await migrate(str(POSTGRES).rsplit("/", 1)[0] + "/no_such_database")


@pytest.mark.needs_postgres
@pytest.mark.skipif(POSTGRES is None, reason="no ISSUEWRIGHT_TEST_POSTGRES_URL")
async def test_postgres_gets_the_tables_once_whoever_comes_first() -> None:
    url = str(POSTGRES)
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.execute(text("DROP SCHEMA public CASCADE"))
        await connection.execute(text("CREATE SCHEMA public"))
    await engine.dispose()
    assert await schema_state(url) == "empty"
    applied = await asyncio.gather(*(migrate(url) for _ in range(3)))
    assert sorted(map(len, applied))[:2] == [0, 0]
    assert await schema_state(url) == "current"
    assert await differences(url) == []
    assert await migrate(url) == []


@pytest.mark.needs_postgres
async def test_postgres_with_a_table_of_another_program_is_refused_and_keeps_it() -> None:
    with new_database() as url:
        execute(url, "CREATE TABLE delivery (parcel text)")
        assert await schema_state(url) == "foreign"
        with pytest.raises(SettingsError, match="belongs to another program"):
            await migrate(url)
        assert list(await shape_of(url)) == ["delivery"]


@pytest.mark.needs_postgres
async def test_postgres_that_can_not_be_written_now_may_be_right_later() -> None:
    with new_database() as url:
        await migrate(url)
        await require_writable(url)
        name = url.rpartition("/")[2]
        execute(url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        with pytest.raises(Unreachable, match=r"can't be used \(.*read-only.*\); see that it runs"):
            await require_writable(url)


async def test_older_database_that_can_only_be_read_is_a_wrong_setting(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await migrate(url)
    monkeypatch.setattr("app.db.schema.STEPS", steps_with_one_more(tmp_path / "steps", known_revisions()[-1]))
    protect(path)
    with pytest.raises(SettingsError, match=r"can't be used \(.*readonly database\); set it to one that can"):
        await migrate(url)
    assert await schema_state(url) == "older"


async def test_step_that_fails_is_told_in_one_line_and_changes_nothing(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await migrate(url)
    with closing(sqlite3.connect(path)) as db:
        db.execute("ALTER TABLE delivery ADD COLUMN note TEXT")
        db.commit()
    monkeypatch.setattr("app.db.schema.STEPS", steps_with_one_more(tmp_path / "steps", known_revisions()[-1]))
    with pytest.raises(MigrationFailed, match=r"nothing was changed: duplicate column name: note$"):
        await migrate(url)
    assert await schema_state(url) == "older"


async def test_no_copy_can_be_made_then_nothing_is_changed(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await migrate(url)
    at = known_revisions()[-1]
    monkeypatch.setattr("app.db.schema.STEPS", steps_with_one_more(tmp_path / "steps", at))
    path.with_name(f"{path.name}.schema-{at}.backup").mkdir()
    with pytest.raises(MigrationFailed, match=r"no copy of .* nothing was changed: .*directory"):
        await migrate(url)
    assert await schema_state(url) == "older"
    assert list(path.parent.glob("*.part")) == []


def add_row(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "INSERT INTO delivery (id, event, headers, body, received_at, state, attempts) "
            "VALUES ('guid-1', 'ping', '{}', x'7b7d', ?, 'received', 0)",
            (NOW,),
        )
        db.commit()


def steps_with_one_more(target: Path, after: str) -> Path:
    """A copy of the real steps and one later step, as a next release would bring."""
    source = Path(__file__).parents[2] / "migrations"
    (target / "versions").mkdir(parents=True)
    for file in ("env.py", "script.py.mako"):
        (target / file).write_text((source / file).read_text())
    for file in (source / "versions").glob("2*.py"):
        (target / "versions" / file.name).write_text(file.read_text())
    (target / "versions" / "29981231_2359_add_note.py").write_text(NEXT_STEP.format(after=after))
    return target


NEXT_STEP = """
import sqlalchemy as sa
from alembic import op

revision = "29981231_2359"
down_revision = "{after}"


def upgrade():
    with op.batch_alter_table("delivery") as batch:
        batch.add_column(sa.Column("note", sa.Text()))
"""


def test_steps_read_as_text_are_those_that_alembic_finds() -> None:
    config = Config()
    config.set_main_option("script_location", str(STEPS))
    config.set_main_option("path_separator", "os")
    found = [step.revision for step in ScriptDirectory.from_config(config).walk_revisions()]
    assert known_revisions() == found[::-1]
