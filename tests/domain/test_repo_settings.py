"""A repository's settings file: what counts, what is refused in which words, and what the operator's limits cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from app.domain.repo_settings import (
    EffectiveSettings,
    OperatorLimits,
    RepoSettings,
    SettingsFaults,
    describe_faults,
    limit_settings,
    parse_settings,
)
from app.domain.result_policy import DEFAULT_PROTECTED
from app.domain.sanitize import size

LIMITS = OperatorLimits(budget_usd=10.0, memory_gb=4, cpu=2, disk_gb=8, model="model-a", max_parallel_tasks=3)
FULL = """
labels: {agent: bot, plan: "bot:plan", quick: bot:quick, approved: bot:go}
base: develop
approval: required
model: model-b
max_parallel_tasks: 2
budget_usd: 2
setup: |
  make deps
  make build
test: make test
messages: mention
protected_paths: [infra/**, .github/workflows/**]
sub_issues: true
max_ci_fixes: 0
max_rounds: 3
allowed_bots: [41898282]
sandbox:
  memory_gb: 2
  cpu: 1
  disk_gb: 4
"""


def parsed(text: str) -> RepoSettings:
    result = parse_settings(text)
    assert isinstance(result, RepoSettings), result
    return result


def faults_of(text: str) -> list[str]:
    result = parse_settings(text)
    assert isinstance(result, SettingsFaults), result
    return [str(fault) for fault in result.faults]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n", "---\n", "{}", "\ufeff", "base:\ntest: ~\n"])
def test_file_that_says_nothing_gives_the_defaults(text: str) -> None:
    result = parsed(text)
    assert result == RepoSettings()
    assert (result.approval, result.messages, result.max_parallel_tasks) == ("auto", "all", 1)
    assert (result.max_ci_fixes, result.max_rounds, result.protected_paths) == (2, 10, DEFAULT_PROTECTED)


def test_every_key_is_read() -> None:
    result = parsed(FULL)
    assert set(result.model_fields_set) == set(RepoSettings.model_fields)
    assert result.setup == "make deps\nmake build\n"
    assert result.labels.approved == "bot:go"
    assert result.sandbox.cpu == 1
    assert result.allowed_bots == (41898282,)
    assert result == parsed(FULL.replace("\n", "\r\n"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("aproval: auto", "line 1: `aproval` is not a setting; perhaps `approval` is meant"),
        ("base: x\nnonsense: 1", "line 2: `nonsense` is not a setting (known: `labels`, `base`, `approval`,"),
        ("approval: maybe", "line 1: `approval` must be `auto` or `required`, not `maybe`"),
        ("approval: yes", "line 1: `approval` must be `auto` or `required`, not `true`"),
        ("max_rounds: '3'", "line 1: `max_rounds` must be a whole number from 0 to 1000, not `3`"),
        ("max_rounds: 2.5", "must be a whole number from 0 to 1000, not `2.5`"),
        ("max_rounds: true", "not `true`"),
        ("max_parallel_tasks: 0", "`max_parallel_tasks` must be a whole number from 1, not `0`"),
        ("budget_usd: .inf", "`budget_usd` must be a number of US dollars above 0, not `inf`"),
        ("budget_usd: -1", "not `-1`"),
        ("budget_usd: " + "9" * 5_000, "`budget_usd` must be a number of US dollars above 0, not `999"),
        ("max_rounds: " + "9" * 100, "not a number that large"),
        ("base: 2026-01-02", None),
        ("base: 2026-99-99", None),
        ("base: [x]", "`base` must be the name of a branch, not a list"),
        ("sub_issues: 'yes'", "`sub_issues` must be `true` or `false`, not `yes`"),
        ("protected_paths: docs", "`protected_paths` must be a list of at most 200 paths, not `docs`"),
        ("protected_paths:\n  - a\n  - 3", "line 3: `protected_paths.1` must be a path or pattern, as text"),
        ("allowed_bots: ['renovate[bot]']", "`allowed_bots.0` must be an account's numeric id"),
        ("labels:\n  agnt: x", "line 2: `labels.agnt` is not a setting; perhaps `agent` is meant"),
        ("labels: bot", "`labels` must be names under `agent`, `plan`, `quick` and `approved`, not `bot`"),
        ("labels: {agent: " + "x" * 51 + "}", "`labels.agent` must be a label's name of at most 50 characters"),
        ("sandbox: {cpu: many}", "`sandbox.cpu` must be a whole number from 1 to 10000, not `many`"),
        ("- a\n- b", "line 1: the file must consist of `key: value` lines"),
        ("just text", "the file must consist of `key: value` lines"),
        ("base: a\nbase: b", "line 2: the file can't be read: `base` stands there twice"),
        ("sandbox: {cpu: 1, cpu: 2}", "`cpu` stands there twice"),
        ("base: &x a\ntest: *x", "line 1: the file can't be read: anchors and aliases"),
        ("base: !!python/object:os.system x", "tags \\(`!`\\) are not allowed"),
        ("<<: {base: x}", "`<<` is not a setting"),
        ("? [a]\n: b", "a key must be a plain word"),
        ("base: a\n--- \nbase: b", "the file can't be read: it is not valid YAML"),
        ("base: [", "the file can't be read: it is not valid YAML"),
        ("base: a\n\tb: c", "line 2: the file can't be read: it is not valid YAML"),
        ("base: \x00", "characters that YAML does not allow"),
        ('base: "\\U00110000"', "the file can't be read"),
        ('base: "\\UFFFFFFFF"', "the file can't be read"),
        ("[" * 30_000, "it is nested too deeply"),
        ("base: " + "x" * 70_000, "it is larger than 64,000 bytes"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_one_sentence(text: str, words: str | None) -> None:
    if words is None:
        assert parsed(text).base == text.removeprefix("base: ")
        return
    faults = faults_of(text)
    assert len(faults) == 1
    assert words in faults[0].replace("\\'", "'"), faults


def test_all_faults_are_told_at_once_in_the_order_of_the_file() -> None:
    faults = faults_of("tset: x\nmessages: some\nsandbox:\n  cpus: 3\n  memory_gb: 0\n")
    assert [fault.split(":")[0] for fault in faults] == ["line 1", "line 2", "line 4", "line 5"]


def test_list_of_many_hostile_faults_is_short_and_harmless() -> None:
    text = "".join(f"'k{n}<!-- @team `</details>': 1\n" for n in range(500))
    result = parse_settings(text)
    assert isinstance(result, SettingsFaults)
    told = describe_faults(result)
    assert told.startswith("- line 1: `k0")
    assert told.endswith("\n- and 480 more")
    assert "<!--" not in told
    assert "</details" not in told
    assert size(told) < 12_000


@settings(max_examples=200)
@given(
    st.one_of(
        st.text(),
        st.lists(
            st.sampled_from(
                [*RepoSettings.model_fields, ": ", "\n", "  ", "- ", "[", "]", "{", "}", "&a ", "*a", "!!int ", "'", '"', "1",
                 "1e400", "0x", "2026-13-01", "~", "yes", "|", ">", "\\", "\\U00110000", "\\UFFFFFFFF", "%YAML 9.9", "---", "?", "<<", "\t",
                 "\ud800", "\x85", "1:99", "-.inf", "=", "0b", "1__", "#"]
            ),
            max_size=20,
        ).map("".join),
    )
)  # fmt: skip
def test_any_text_gives_settings_or_faults(text: str) -> None:
    result = parse_settings(text)
    if isinstance(result, SettingsFaults):
        assert result.faults
        assert "<!--" not in describe_faults(result)
        assert all(len(str(fault)) < 1_000 and "\n" not in str(fault) for fault in result.faults)
    else:
        limit_settings(result, LIMITS, ())


def test_lower_values_are_kept_and_nothing_is_said() -> None:
    effective, notes = limit_settings(
        parsed(FULL.replace("protected_paths", "#")), LIMITS, ("model-a", "model-b")
    )
    assert notes == ()
    assert (effective.budget_usd, effective.memory_gb, effective.cpu, effective.disk_gb) == (2.0, 2, 1, 4)
    assert (effective.max_parallel_tasks, effective.max_rounds, effective.max_ci_fixes) == (2, 3, 0)
    assert (effective.model, effective.approval, effective.base) == ("model-b", "required", "develop")
    assert effective.labels.agent == "bot"


def test_higher_values_are_cut_and_said_so() -> None:
    text = "budget_usd: 99.5\nmax_parallel_tasks: 9\nmax_rounds: 900\nmax_ci_fixes: 500\nsandbox: {memory_gb: 64, cpu: 8, disk_gb: 100}"
    effective, notes = limit_settings(parsed(text), LIMITS, ())
    assert (effective.budget_usd, effective.memory_gb, effective.cpu, effective.disk_gb) == (10.0, 4, 2, 8)
    assert (effective.max_parallel_tasks, effective.max_rounds, effective.max_ci_fixes) == (3, 50, 10)
    assert len(notes) == 7
    assert notes[0] == (
        "`budget_usd: 99.5` in `.github/issuewright.yml` is above the operator's limit; 10 is used."
    )
    assert any(note.startswith("`sandbox.memory_gb: 64`") for note in notes)


def test_default_of_ours_above_a_limit_is_lowered_without_a_word() -> None:
    limits = OperatorLimits(budget_usd=1, memory_gb=1, cpu=1, disk_gb=1, max_rounds=5)
    effective, notes = limit_settings(RepoSettings(), limits, ())
    assert (effective.max_rounds, effective.memory_gb, effective.model, notes) == (5, 1, None, ())


@pytest.mark.parametrize(
    ("wanted", "models", "used", "said"),
    [
        ("model-b", ("model-a", "model-b"), "model-b", False),
        ("model-a", (), "model-a", False),
        ("model-z", ("model-a",), "model-a", True),
        ("Model-A", ("model-a",), "model-a", True),
    ],
)
def test_model_that_is_not_allowed_becomes_the_default(
    wanted: str, models: tuple[str, ...], used: str, said: bool
) -> None:
    effective, notes = limit_settings(parsed(f"model: {wanted}"), LIMITS, models)
    assert effective.model == used
    assert bool(notes) == said
    assert all(f"`{wanted}`" in note and "`model-a` is used" in note for note in notes)


def test_paths_that_lose_their_protection_are_named() -> None:
    effective, notes = limit_settings(parsed("protected_paths: [infra/**]"), LIMITS, ())
    assert effective.protected_paths == ("infra/**",)
    assert "no longer protected: `.github/workflows/**`, `.github/issuewright.yml`" in notes[0]


def test_what_holds_survives_being_kept_as_json() -> None:
    effective, _ = limit_settings(parsed(FULL), LIMITS, ("model-b",))
    kept = json.loads(json.dumps(effective.model_dump(mode="json")))
    assert EffectiveSettings.model_validate(kept) == effective
