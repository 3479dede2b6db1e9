"""Each setting with each kind of wrong value: refused at once, in one line that names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from app.domain.errors import SettingsError
from app.settings import Settings, load_settings

URLS = (
    "ftp://x.example",
    "x.example",
    "https://",
    "https://x.example:port",
    "https://[::1",
    "https://u:p@x.example",
    "https://x example",
    " https://x.example",
)
KEYS = ("two words", "a\nb", "k\u00e9y", "\u201cquoted\u201d", "x" * 5000)
LABELS = ("   ", "a" * 51, "one,two", "agent:approved")

WRONG: Mapping[str, Sequence[str]] = {
    "GITHUB_APP_ID": ("my-app", "0", "-3", "1.5", "9" * 30),
    "GITHUB_API_URL": URLS,
    "GITHUB_URL": URLS,
    "DATABASE_URL": (
        "mysql://db/x",
        "postgresql://db/x",
        "sqlite:///x.db",
        "postgresql+asyncpg://db:port/x",
        "x",
    ),
    "REDIS_URL": ("http://cache", "cache:6379", "redis://cache:port", "redis://cache/main"),
    "PORT": ("http", "-1", "65536", "80.5"),
    "PUBLIC_URL": (*URLS, "https://x.example/?a=b", "https://x.example/#top"),
    "SANDBOX_PROVIDER": ("docker", "Bubblewrap"),
    "SANDBOX_MEMORY_GB": ("0", "-1", "4GB", "2000"),
    "SANDBOX_CPU": ("0", "two", "1000"),
    "SANDBOX_DISK_GB": ("0", "big", "100000"),
    "DAYTONA_API_URL": URLS,
    "ANTHROPIC_API_KEY": KEYS,
    "ANTHROPIC_BASE_URL": URLS,
    "MODEL_PRICES": ("some-model", "some-model=cheap", "some-model=1,2", "=1,2,3", "m=1,2,-3", "m=1,2,inf"),
    "MODEL_KEY_IN_SANDBOX": ("perhaps", "2"),
    "SANDBOX_LINK": ("Relay", "tunnel"),
    "DAYTONA_API_KEY": KEYS,
    "MAX_BUDGET_USD": ("0", "-1", "free", "nan", "inf", "1e9"),
    "GUARDIAN_MODEL_EVERY": ("0", "4", "-1", "often", "99999999"),
    "GUARDIAN_MODEL_BUDGET_USD": ("0", "-1", "free", "nan", "inf", "1e9"),
    "MAX_TURNS": ("0", "-1", "many", "1.5"),
    "TASK_TIMEOUT_S": ("0", "-1", "1h", "99999999"),
    "IDLE_S": ("-1", "ten", "99999999"),
    "SANDBOX_MEMORY_MAX_GB": ("0", "-1", "16GB", "2000"),
    "MAX_SANDBOXES": ("0", "-1", "some", "1.5"),
    "SPEC_BUDGET_USD": ("0", "-1", "free", "nan", "inf", "1e9"),
    "REPOSITORY_DAY_BUDGET_USD": ("0", "-1", "free", "nan", "inf", "1e9"),
    "SANDBOX_SILENT_S": ("0", "59", "-1", "2m", "99999999"),
    "SANDBOX_STALLED_S": ("0", "-1", "10m", "99999999"),
    "SANDBOX_PHASE_GAP_S": ("0", "-1", "5m", "99999999"),
    "SANDBOX_ABSENT_S": ("0", "-1", "3m", "99999999"),
    "SANDBOX_RESTARTS": ("-1", "21", "twice", "0.5"),
    "CREDENTIALS_KEY": ("short", "k" * 31, f"{'k' * 32},old", f"old,{'k' * 32}"),
    "RETENTION_DAYS": ("-1", "a month", "99999999"),
    "LEASE_S": ("0", "short", "99999999"),
    "PERMISSION_MODE": ("plan", "default"),
    "LOG_FORMAT": ("xml", "JSON "),
    "LOG_LEVEL": ("loud", "trace"),
    "LABEL_AGENT": LABELS,
    "LABEL_PLAN": LABELS,
    "LABEL_QUICK": LABELS,
    "LABEL_APPROVED": (*LABELS[:3], "agent"),
}
LATER: Mapping[str, str] = {
    "ISSUEWRIGHT_HOME": "only the file system knows: test_bad_settings",
    "GITHUB_APP_PRIVATE_KEY": "a path or a text, read when it is needed: test_bad_settings",
    "GITHUB_WEBHOOK_SECRET": "any text; GitHub's side is tried by doctor",
    "HOST": "only binding it tells: test_bad_settings",
    "API_TOKEN": "any text",
    "SANDBOX_ALLOW_HOSTS": "names, compared as they are",
    "SANDBOX_SNAPSHOT": "a name at Daytona",
    "SANDBOX_IMAGE": "a name at Daytona",
    "DAYTONA_MODEL_SECRET": "a name at Daytona",
    "DAYTONA_TARGET": "a name at Daytona",
    "MODEL": "a name; tried by doctor",
    "GUARDIAN_MODEL": "a name; a call that is refused is no verdict",
    "MODELS": "names; tried by doctor",
    "CRASH_POINTS": "for tests: worker and web refuse what they do not know: test_bad_settings",
}
"""Settings that no value is wrong for by itself, and what tells instead."""


@pytest.fixture(autouse=True)
def _nothing_else_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ISSUEWRIGHT_HOME", str(tmp_path))


def test_every_setting_is_looked_at_here() -> None:
    assert {name.upper() for name in Settings.model_fields} == set(WRONG) | set(LATER)
    assert not set(WRONG) & set(LATER)


@pytest.mark.parametrize("source", ["environment", "yaml"])
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_wrong_value_is_one_line_that_names_the_setting(
    name: str, value: str, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if source == "environment":
        monkeypatch.setenv(name, value)
    else:
        quoted = value.replace("'", "''")
        (tmp_path / "issuewright.yaml").write_text(f"{name.lower()}: '{quoted}'\n")
    with pytest.raises(SettingsError) as refused:
        load_settings()
    (problem,) = refused.value.problems
    assert name in problem
    assert len(problem.splitlines()) == 1
    assert len(problem) < 300


def test_an_empty_value_means_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*WRONG, *LATER):
        if name != "ISSUEWRIGHT_HOME":
            monkeypatch.setenv(name, "")
    unset = load_settings()
    assert unset.port == 8000
    assert unset.github_app_id is None


def test_an_empty_value_in_yaml_means_unset(tmp_path: Path) -> None:
    names = [name.lower() for name in (*WRONG, *LATER) if name != "ISSUEWRIGHT_HOME"]
    (tmp_path / "issuewright.yaml").write_text(
        "".join(f"{name}: {'' if number % 2 else chr(34) * 2}\n" for number, name in enumerate(names))
    )
    assert load_settings() == Settings(issuewright_home=tmp_path)
    (tmp_path / "issuewright.yaml").write_text("host: ''\nport:\n")
    assert (load_settings().host, load_settings().port) == ("127.0.0.1", 8000)


@pytest.mark.parametrize("value", ["12345", "007", "yes"])
def test_a_text_that_yaml_takes_for_something_else_is_told_to_be_quoted(value: str, tmp_path: Path) -> None:
    (tmp_path / "issuewright.yaml").write_text(f"github_webhook_secret: {value}\n")
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert refused.value.problems == (
        "GITHUB_WEBHOOK_SECRET: must be text; in the YAML file write it in quotes",
    )


def test_a_yaml_list_is_taken_where_several_are_taken(tmp_path: Path) -> None:
    (tmp_path / "issuewright.yaml").write_text(
        "models: [a, b]\nmodel_prices: ['a=1,2,3', 'b=4,5,6']\ngithub_webhook_secret: [new, old]\n"
        "sandbox_allow_hosts: [x.example, '*.y.example']\n"
    )
    settings = load_settings()
    assert settings.allowed_models == ("a", "b")
    assert set(settings.prices) == {"a", "b"}
    assert settings.webhook_secrets == (b"new", b"old")
    assert settings.allow_hosts == ("x.example", "*.y.example")


def test_an_address_with_colons_stands_in_brackets_in_the_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "::1")
    assert load_settings().base_url == "http://[::1]:8000"


def test_the_line_end_of_a_key_from_a_file_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-hidden\n")
    monkeypatch.setenv("DAYTONA_API_KEY", " \n")
    settings = load_settings()
    assert settings.anthropic_api_key is not None
    assert settings.anthropic_api_key.get_secret_value() == "sk-hidden"
    assert settings.daytona_api_key is None


def test_a_secret_is_never_part_of_a_complaint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://u:hidden-password@db/x")
    monkeypatch.setenv("REDIS_URL", "http://:hidden-password@cache")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hidden-password in words")
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert len(refused.value.problems) == 3
    assert "hidden-password" not in str(refused.value)
