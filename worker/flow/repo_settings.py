"""The repository's own settings, read once when the work starts: from the default branch, at a commit that is recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from app.domain.errors import Gone
from app.domain.notices import BAD_SETTINGS
from app.domain.repo_settings import (
    SETTINGS_PATH,
    RepoSettings,
    SettingsFaults,
    describe_faults,
    limit_settings,
    parse_settings,
)
from worker.step import Step

ALIKE = "`labels` gives two of the labels one name; each of the four needs a name of its own"


@dataclass(frozen=True)
class TakenSettings:
    """`settings` as JSON, within the operator's limits; `notes` say what was cut."""

    settings: dict[str, Any]
    sha: str | None
    notes: tuple[str, ...]


async def take_settings(step: Step, default_branch: str) -> TakenSettings | str:
    """What the work goes by; or, when the file can't be used, the sentence that says why no work is started."""
    branch = await step.parts.github.fetch_branch(step.repo, default_branch)
    sha = branch.sha if branch is not None else None
    text = await _fetch(step, sha) if sha is not None else None
    parsed = parse_settings(text) if text is not None else RepoSettings()
    if isinstance(parsed, SettingsFaults):
        return BAD_SETTINGS.format(path=SETTINGS_PATH, faults=describe_faults(parsed))
    names = parsed.labels.model_dump(exclude_none=True)
    if names and step.parts.labels.renamed(names) == step.parts.labels != replace(step.parts.labels, **names):
        return BAD_SETTINGS.format(path=SETTINGS_PATH, faults=f"- {ALIKE}")
    limits = step.parts.limits
    effective, notes = limit_settings(parsed, limits.operator, limits.models)
    return TakenSettings(effective.model_dump(mode="json"), sha, notes)


async def _fetch(step: Step, sha: str) -> str | None:
    try:
        return await step.parts.github.fetch_file(step.repo, SETTINGS_PATH, sha)
    except Gone:
        return None
