"""A repository's own settings, `.github/issuewright.yml` on its default branch (contract, section 4). Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from app.domain.plan_text import code, inline
from app.domain.result_policy import DEFAULT_PROTECTED
from app.domain.yaml_plain import BadYaml, Document, Place, parse_yaml

SETTINGS_PATH = ".github/issuewright.yml"
MAX_FAULTS = 20

_Name = Annotated[str, StringConstraints(pattern=r"\S", max_length=50)]
_Text = Annotated[str, StringConstraints(pattern=r"\S", max_length=255)]
_Command = Annotated[str, StringConstraints(pattern=r"\S", max_length=4_000)]
_Glob = Annotated[str, StringConstraints(pattern=r"\S", max_length=500)]
_Count = Annotated[int, Field(ge=0, le=1_000)]
_Size = Annotated[int, Field(ge=1, le=10_000)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class LabelSettings(_Part):
    """Other names for the labels; None keeps the operator's."""

    agent: _Name | None = None
    plan: _Name | None = None
    quick: _Name | None = None
    approved: _Name | None = None


class SandboxSettings(_Part):
    """Size of each sandbox; None keeps the operator's."""

    memory_gb: _Size | None = None
    cpu: _Size | None = None
    disk_gb: _Size | None = None


class RepoSettings(_Part):
    """As a repository wrote them. None means that the operator's value or the product's own rule holds."""

    labels: LabelSettings = LabelSettings()
    base: _Text | None = None
    """The branch that work starts from and goes to."""
    approval: Literal["auto", "required"] = "auto"
    model: _Text | None = None
    max_parallel_tasks: Annotated[int, Field(ge=1, le=1_000)] = 1
    budget_usd: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """Of each sandbox, in US dollars."""
    setup: _Command | None = None
    test: _Command | None = None
    messages: Literal["all", "mention"] = "all"
    protected_paths: Annotated[tuple[_Glob, ...], Field(max_length=200, strict=False)] = DEFAULT_PROTECTED
    sub_issues: bool = False
    max_ci_fixes: _Count = 2
    max_rounds: _Count = 10
    allowed_bots: Annotated[
        tuple[Annotated[int, Field(ge=1, lt=2**63)], ...], Field(max_length=100, strict=False)
    ] = ()
    """Account ids."""
    sandbox: SandboxSettings = SandboxSettings()


_EXPECTED: Mapping[str, str] = MappingProxyType(
    {
        "labels": "names under `agent`, `plan`, `quick` and `approved`",
        "labels.*": "a label's name of at most 50 characters",
        "base": "the name of a branch",
        "approval": "`auto` or `required`",
        "model": "the name of a model",
        "max_parallel_tasks": "a whole number from 1",
        "budget_usd": "a number of US dollars above 0",
        "setup": "one shell command, as text",
        "test": "one shell command, as text",
        "messages": "`all` or `mention`",
        "protected_paths": "a list of at most 200 paths",
        "protected_paths.*": "a path or pattern, as text",
        "sub_issues": "`true` or `false`",
        "max_ci_fixes": "a whole number from 0 to 1000",
        "max_rounds": "a whole number from 0 to 1000",
        "allowed_bots": "a list of account ids",
        "allowed_bots.*": "an account's numeric id",
        "sandbox": "numbers under `memory_gb`, `cpu` and `disk_gb`",
        "sandbox.*": "a whole number from 1 to 10000",
    }
)
_MODELS: Mapping[str, type[BaseModel]] = MappingProxyType(
    {"": RepoSettings, "labels": LabelSettings, "sandbox": SandboxSettings}
)


@dataclass(frozen=True)
class SettingsFault:
    """One thing that is wrong: a Markdown sentence; `line` counts from 1."""

    text: str
    line: int | None = None

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


@dataclass(frozen=True)
class SettingsFaults:
    """Why a settings file is not used; never empty."""

    faults: tuple[SettingsFault, ...]


def parse_settings(text: str) -> RepoSettings | SettingsFaults:
    """The settings that `text` says. Never raises, whatever it is; an empty file says nothing, so all defaults."""
    try:
        document = parse_yaml(text)
    except BadYaml as bad:
        reason = inline(bad.reason, 300)
        return SettingsFaults((SettingsFault(f"the file can't be read: {reason}", bad.line),))
    if document.data is None:
        return RepoSettings()
    if not isinstance(document.data, dict):
        return SettingsFaults((SettingsFault("the file must consist of `key: value` lines", 1),))
    # A key without a value says nothing.
    given = {key: value for key, value in document.data.items() if value is not None or key not in _EXPECTED}
    try:
        return RepoSettings.model_validate(given)
    except ValidationError as error:
        faults = [
            _fault(item["loc"], item["type"], item["input"], document)
            for item in error.errors(include_url=False, include_context=False)
        ]
        faults.sort(key=lambda fault: fault.line or 0)
        return SettingsFaults(tuple(dict.fromkeys(faults)))


def _fault(location: Place, kind: str, value: object, document: Document) -> SettingsFault:
    line = next((document.lines[location[:end]] for end in range(len(location), -1, -1)
                 if location[:end] in document.lines), None)  # fmt: skip
    name = code(".".join(map(str, location)), 100)
    if kind == "extra_forbidden":
        return SettingsFault(f"{name} is not a setting{_meant(location)}", line)
    top = str(location[0])
    expected = _EXPECTED.get(top if len(location) == 1 else f"{top}.*", "something else")
    return SettingsFault(f"{name} must be {expected}, not {_shown(value)}", line)


def _meant(location: Place) -> str:
    """A guess at what was meant, else what there is."""
    parent, key = ".".join(map(str, location[:-1])), str(location[-1])[:100]
    known = list(_MODELS.get(parent, RepoSettings).model_fields)
    close = difflib.get_close_matches(key, known, n=1)
    return (
        f"; perhaps `{close[0]}` is meant" if close else f" (known: {', '.join(f'`{one}`' for one in known)})"
    )


def _shown(value: object) -> str:
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int) and abs(value) >= 10**18:
        return "a number that large"
    return code(str(value), 60)


def describe_faults(faults: SettingsFaults) -> str:
    """The faults as a Markdown list, at most MAX_FAULTS of them."""
    shown = [f"- {fault}" for fault in faults.faults[:MAX_FAULTS]]
    left = len(faults.faults) - len(shown)
    return "\n".join([*shown, *([f"- and {left} more"] if left > 0 else [])])


# ------------------------------------------------------------ within the operator's limits


@dataclass(frozen=True)
class OperatorLimits:
    """What no repository may exceed. Sizes in GB, `budget_usd` for each sandbox; `model` None is the SDK's default."""

    budget_usd: float
    memory_gb: int
    cpu: int
    disk_gb: int
    model: str | None = None
    max_parallel_tasks: int = 4
    max_ci_fixes: int = 10
    max_rounds: int = 50


class EffectiveSettings(_Part):
    """What holds for one spec. Kept as JSON: `model_dump(mode="json")` there, `model_validate` back."""

    labels: LabelSettings = LabelSettings()
    base: str | None = None
    approval: Literal["auto", "required"] = "auto"
    model: str | None = None
    max_parallel_tasks: int = 1
    budget_usd: float
    setup: str | None = None
    test: str | None = None
    messages: Literal["all", "mention"] = "all"
    protected_paths: Annotated[tuple[str, ...], Field(strict=False)] = DEFAULT_PROTECTED
    sub_issues: bool = False
    max_ci_fixes: int = 2
    max_rounds: int = 10
    allowed_bots: Annotated[tuple[int, ...], Field(strict=False)] = ()
    memory_gb: int
    cpu: int
    disk_gb: int


def limit_settings(
    settings: RepoSettings, limits: OperatorLimits, models: Collection[str]
) -> tuple[EffectiveSettings, tuple[str, ...]]:
    """The settings cut down to what the operator allows, and a Markdown sentence for everything that was changed.

    A repository may only lower: what is above a limit becomes the limit, a model outside `models` the default one.
    """
    notes: list[str] = []

    def cut(name: str, wanted: float | None, limit: float) -> float:
        if wanted is None or wanted <= limit:
            return limit if wanted is None else wanted
        # A default of ours that is above the limit was nobody's wish: nothing to tell.
        if name.split(".", maxsplit=1)[0] not in settings.model_fields_set:
            return limit
        notes.append(
            f"`{name}: {wanted:g}` in `{SETTINGS_PATH}` is above the operator's limit; {limit:g} is used."
        )
        return limit

    model = settings.model
    if model is not None and model != limits.model and model not in models:
        default = f"`{limits.model}`" if limits.model else "the default model"
        notes.append(
            f"The model {code(model, 100)} in `{SETTINGS_PATH}` is not allowed here; {default} is used."
        )
        model = None
    unprotected = [path for path in DEFAULT_PROTECTED if path not in settings.protected_paths]
    if unprotected:
        paths = ", ".join(f"`{path}`" for path in unprotected)
        notes.append(
            f"`protected_paths` in `{SETTINGS_PATH}` replaces the default list; no longer protected: {paths}."
        )
    size = settings.sandbox
    effective = EffectiveSettings(
        **settings.model_dump(include=_TAKEN_OVER),
        labels=settings.labels,
        model=model or limits.model,
        budget_usd=cut("budget_usd", settings.budget_usd, limits.budget_usd),
        max_parallel_tasks=int(
            cut("max_parallel_tasks", settings.max_parallel_tasks, limits.max_parallel_tasks)
        ),
        max_ci_fixes=int(cut("max_ci_fixes", settings.max_ci_fixes, limits.max_ci_fixes)),
        max_rounds=int(cut("max_rounds", settings.max_rounds, limits.max_rounds)),
        memory_gb=int(cut("sandbox.memory_gb", size.memory_gb, limits.memory_gb)),
        cpu=int(cut("sandbox.cpu", size.cpu, limits.cpu)),
        disk_gb=int(cut("sandbox.disk_gb", size.disk_gb, limits.disk_gb)),
    )
    return effective, tuple(notes)


_TAKEN_OVER = {
    "base",
    "approval",
    "setup",
    "test",
    "messages",
    "protected_paths",
    "sub_issues",
    "allowed_bots",
}
"""What has no limit."""
