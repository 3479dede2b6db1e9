"""What a repository is called, and whose it is: labels that change, which every payload tells as of its own time."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from app.db.installations import find_repository
from app.domain.errors import Denied, Gone
from app.domain.happening import Happening, RepoFacts
from app.domain.ids import InstallationId, RepoId
from app.domain.ports import RepoRef
from worker.parts import Parts


@dataclass(frozen=True)
class Names:
    """As the `repositories` table has them. `default_branch`: None where the payload did not say."""

    id: int
    installation_id: int
    owner: str
    name: str
    private: bool
    default_branch: str | None

    @property
    def values(self) -> dict[str, Any]:
        told = vars(self)
        return told if self.default_branch else {key: told[key] for key in told if key != "default_branch"}


async def find_names(parts: Parts, happening: Happening) -> Names | None:
    """What holds now. Deliveries come late and in any order, so where one tells another thing than is known, GitHub is
    asked: through the installation that the delivery names, or the one that is known. None when there is nothing to
    record, or neither can read the repository.
    """
    repo = happening.repo
    if repo is None or happening.installation_id is None or not repo.owner:
        return None
    told = Names(
        repo.repo_id,
        happening.installation_id,
        repo.owner,
        repo.name,
        repo.private,
        repo.default_branch or None,
    )
    async with parts.db.look() as session:
        known = await find_repository(session, told.id)
    if known is None or all(getattr(known, key) == value for key, value in told.values.items()):
        return told
    for installation_id in dict.fromkeys((told.installation_id, known.installation_id)):
        ref = RepoRef(InstallationId(installation_id), RepoId(told.id), told.owner, told.name)
        with suppress(Gone, Denied):
            live = await parts.github.fetch_repository(ref)
            return Names(told.id, installation_id, live.owner, live.name, live.private, live.default_branch)
    return None


def under_names(happening: Happening, names: Names) -> Happening:
    """The same, as it would be told now: what follows from it is asked and written there."""
    repo = RepoFacts(names.id, names.owner, names.name, names.default_branch, names.private)
    return replace(happening, installation_id=names.installation_id, repo=repo)
