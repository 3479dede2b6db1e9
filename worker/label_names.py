"""Which labels count in a repository: the operator's names, or those in its settings file."""

from __future__ import annotations

from datetime import timedelta

from app.db.installations import find_repository, record_label_names
from app.domain.errors import Gone
from app.domain.labels import LabelNames
from app.domain.ports import RepoRef
from app.domain.repo_settings import SETTINGS_PATH, RepoSettings, parse_settings
from worker.parts import Parts

FRESH_FOR = timedelta(seconds=60)


async def label_names(parts: Parts, repo: RepoRef, default_branch: str | None) -> LabelNames:
    """As the default branch says now, asked at most once a minute. The operator's while it names none, or while the
    file can't be used: work that starts then says what is wrong with it. Raises what a call to GitHub raises, but Gone.
    """
    now = parts.clock()
    async with parts.db.read() as session:
        known = await find_repository(session, repo.repo_id)
    if known is not None and known.labels_read_at is not None and now - known.labels_read_at < FRESH_FOR:
        return parts.labels.renamed(known.labels or {})
    branch = default_branch or (known.default_branch if known is not None else None)
    names = await _fetch(parts, repo, branch) if branch else {}
    async with parts.db.write() as session:
        await record_label_names(session, repo.repo_id, names, now)
    return parts.labels.renamed(names)


async def _fetch(parts: Parts, repo: RepoRef, branch: str) -> dict[str, str]:
    try:
        text = await parts.github.fetch_file(repo, SETTINGS_PATH, branch)
    except Gone:
        return {}
    parsed = parse_settings(text) if text is not None else RepoSettings()
    return parsed.labels.model_dump(exclude_none=True) if isinstance(parsed, RepoSettings) else {}
