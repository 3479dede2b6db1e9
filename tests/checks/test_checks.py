"""Each check can fail, and says where."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData

from app.db.models import Base
from tests.checks.__main__ import CHECKS
from tests.checks.environment import find_environment_reads
from tests.checks.machine import find_machine_traces
from tests.checks.names import find_empty_names
from tests.checks.schema import find_schema_drift
from tests.checks.sizes import find_large
from tests.checks.sql import find_sql_elsewhere
from tests.checks.tree import Source, Tree


def tree(text: str, path: str = "app/web/example.py") -> Tree:
    return Tree((Source(path, text),))


def places(check: str, text: str, path: str = "app/web/example.py") -> list[tuple[str, int]]:
    return [(finding.path, finding.line) for finding in CHECKS[check](tree(text, path))]


def test_long_file_is_found_but_not_in_migrations_or_tests() -> None:
    text = "x = 1\n" * 401
    assert places("sizes", text) == [("app/web/example.py", 0)]
    assert places("sizes", text, "migrations/versions/20260101_0000_add_x.py") == []
    assert places("sizes", text, "tests/web/test_x.py") == []
    assert places("sizes", "x = 1\n" * 400) == []


def test_long_function_is_found() -> None:
    body = "    x = 1\n"
    assert places("sizes", "\nasync def f():\n" + body * 60) == [("app/web/example.py", 2)]
    assert places("sizes", "def f():\n" + body * 59) == []


@pytest.mark.parametrize("opening", ['"""', 'f"""{1}', 'b"""'])
def test_long_literal_is_found_in_tests_too(opening: str) -> None:
    text = f"x = {opening}" + "line\n" * 40 + '"""\n'
    assert ("tests/x.py", 1) in places("sizes", text, "tests/x.py")
    assert list(find_large(tree(text.replace("line\n", "", 1)))) == []


@pytest.mark.parametrize("name", ["SpecManager", "Services", "HandlerBase", "DateHelper", "TextUtils"])
def test_empty_class_name_is_found(name: str) -> None:
    assert places("names", f"class {name}:\n    pass\n") == [("app/web/example.py", 1)]


@pytest.mark.parametrize(
    "path", ["app/utils.py", "worker/spec_helpers.py", "app/services/x.py", "tests/handler.py"]
)
def test_empty_module_name_is_found(path: str) -> None:
    assert places("names", "", path) == [(path, 0)]


def test_names_that_only_contain_the_letters_pass() -> None:
    assert list(find_empty_names(tree("class Utilization:\n    pass\n", "app/serviceable.py"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "import os; os.environ['X']",
        "import os; os.getenv('X')",
        "from os import environ",
        "import os; dict(os.environ)",
    ],
)
def test_environment_read_outside_settings_is_found(line: str) -> None:
    assert places("environment", line) == [("app/web/example.py", 1)]
    assert places("environment", line, "app/settings.py") == []
    assert places("environment", line, "tests/x.py") == []


def test_allowed_variable_does_not_open_the_file_for_others() -> None:
    text = "import os\nos.environ.get('PATH', '')\nos.environ.get('HOME')\ndict(os.environ)\n"
    lines = {finding.line for finding in find_environment_reads(tree(text, "app/sandbox/launch.py"))}
    assert lines == {3, 4}


@pytest.mark.parametrize(
    "line",
    [
        "from sqlalchemy import select",
        "import sqlalchemy",
        "from sqlalchemy.orm import Session",
        "from sqlalchemy.ext.asyncio import create_async_engine",
        "x = 'SELECT id FROM spec'",
        "x = 'DELETE FROM spec'",
        "session.execute(statement)",
    ],
)
def test_sql_outside_app_db_is_found(line: str) -> None:
    assert places("SQL", line) == [("app/web/example.py", 1)]
    assert places("SQL", line, "app/db/example.py") == []


def test_sessions_as_values_and_database_errors_are_no_sql() -> None:
    text = (
        "from sqlalchemy.exc import SQLAlchemyError\n"
        "from sqlalchemy.ext.asyncio import AsyncSession\n"
        "'Update the issue'\n"
        "'Selected from a list'\n"
    )
    assert list(find_sql_elsewhere(tree(text))) == []


@pytest.mark.parametrize(
    "text",
    [
        # Written apart, so that this file passes the check itself.
        "cd /ro{}ot/project",
        "path = '/wor{}k/main/app'",
        "/ho{}me/carol/x",
        "https://pyp{}i.org/simple",
        "https://files.python{}hosted.org/x",
        "pip install --index{}-url=x",
    ],
)
def test_traces_of_a_machine_are_found_in_any_text_file(text: str) -> None:
    assert places("machine", f"ok\n{text.format('')}\n", "docs/x.md") == [("docs/x.md", 2)]


def test_ordinary_paths_are_no_traces() -> None:
    text = "/home/agent/x {root}/home worker/flow/watch.py the PyPI package docs/" + "work" + "/x"
    assert list(find_machine_traces(tree(text, "docs/x.md"))) == []


def test_a_model_without_its_migration_is_found() -> None:
    models = MetaData()
    for table in Base.metadata.tables.values():
        table.to_metadata(models)
    models.tables["spec"].append_column(Column("mood", Integer))
    findings = list(find_schema_drift(tree(""), models))
    assert len(findings) == 1
    assert "add_column" in findings[0].text
    assert "mood" in findings[0].text


def test_the_tree_is_read_without_what_is_hidden_or_built(tmp_path: Path) -> None:
    for name in ("app/a.py", ".venv/b.py", "app/__pycache__/c.py", "x.egg-info/d.txt", ".ci/run"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    assert {source.path for source in Tree.read(tmp_path).sources} == {"app/a.py", ".ci/run"}
