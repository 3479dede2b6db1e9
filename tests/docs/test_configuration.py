"""The configuration reference is complete, and its examples and defaults are true."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import Settings, load_settings
from tests.checks.configuration import EXAMPLES, PAGE, find_readers, find_stale_reference, is_secret
from tests.checks.tree import Source, Tree
from tests.docs.markdown import ROOT

CONTRACT = {
    "GITHUB_APP_ID": None,
    "GITHUB_APP_PRIVATE_KEY": None,
    "GITHUB_WEBHOOK_SECRET": None,
    "GITHUB_API_URL": "https://api.github.com",
    "GITHUB_URL": "https://github.com",
    "DATABASE_URL": None,
    "REDIS_URL": None,
    "ISSUEWRIGHT_HOME": Path("~/.local/state/issuewright").expanduser(),
    "HOST": "127.0.0.1",
    "PORT": 8000,
    "PUBLIC_URL": None,
    "API_TOKEN": None,
    "SANDBOX_PROVIDER": None,
    "SANDBOX_ALLOW_HOSTS": "",
    "DAYTONA_API_KEY": None,
    "DAYTONA_API_URL": None,
    "DAYTONA_TARGET": None,
    "SANDBOX_MEMORY_GB": 4,
    "SANDBOX_CPU": 2,
    "SANDBOX_DISK_GB": 8,
    "SANDBOX_SNAPSHOT": "ai-agent-dev-light",
    "SANDBOX_IMAGE": None,
    "ANTHROPIC_API_KEY": None,
    "ANTHROPIC_BASE_URL": "https://api.anthropic.com",
    "MODEL": None,
    "MODELS": "",
    "MODEL_PRICES": "",
    "MODEL_KEY_IN_SANDBOX": False,
    "MAX_BUDGET_USD": 10,
    "MAX_TURNS": 150,
    "TASK_TIMEOUT_S": 3600,
    "IDLE_S": 600,
    "CREDENTIALS_KEY": None,
    "LOG_FORMAT": None,
    "LOG_LEVEL": "info",
}
"""What operators may rely on: these names and these defaults don't change."""
TREE = Tree.read()


def rows() -> dict[str, list[str]]:
    """The cells of each setting on the page, by its name."""
    lines = [line for line in (ROOT / PAGE).read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0].split("`")[1]: row for row in cells}


def test_the_page_says_what_the_settings_say() -> None:
    assert list(find_stale_reference(TREE)) == []
    assert set(rows()) == {name.upper() for name in Settings.model_fields}


def test_a_changed_page_is_called_stale() -> None:
    changed = (ROOT / PAGE).read_text().replace("`8000`", "`8001`")
    sources = [one for one in TREE.sources if one.path != PAGE]
    assert len(list(find_stale_reference(Tree((*sources, Source(PAGE, changed)))))) == 1


@pytest.mark.parametrize("name", CONTRACT)
def test_a_promised_setting_is_there_with_its_default(name: str) -> None:
    field = Settings.model_fields[name.lower()]
    assert field.get_default(call_default_factory=True) == CONTRACT[name]


def test_every_setting_is_described_and_secrets_are_called_so() -> None:
    for name, field in Settings.model_fields.items():
        assert len(field.description or "") > 15, name
        assert ("(secret)" in rows()[name.upper()][0]) == is_secret(field), name


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_example_is_a_valid_value_of_its_setting_and_not_the_default(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in Settings.model_fields:
        monkeypatch.delenv(variable.upper(), raising=False)
    monkeypatch.chdir(tmp_path)
    plain = load_settings()
    monkeypatch.setenv(name.upper(), EXAMPLES[name])
    assert getattr(load_settings(), name) != getattr(plain, name)


def test_who_reads_a_setting_is_seen_through_the_names_that_stand_before_it() -> None:
    readers = find_readers(TREE)
    assert readers["database_url"] == ["web", "worker"]  # through Settings.database
    assert readers["github_app_private_key"] == ["web", "worker"]  # through require_github
    assert readers["api_token"] == ["web"]
    assert readers["max_turns"] == ["worker"]
