"""What happens around the work and is only noted: to its issue, its branch, its pull request, its repository."""

from __future__ import annotations

from app.domain.triggers import (
    BranchMoved,
    Cancel,
    Happening,
    PullEdited,
    PullEnded,
    PullReopened,
    RepositoryChanged,
    Unlocked,
)
from worker.intake.end import cancel, note_pull
from worker.intake.pulls import note_base, note_branch
from worker.intake.repository import note_repository, note_unlocked
from worker.parts import Parts
from worker.verdict import Verdict

Surroundings = BranchMoved | Cancel | PullEdited | PullEnded | PullReopened | RepositoryChanged | Unlocked


async def note_surroundings(parts: Parts, happening: Happening, intent: Surroundings) -> Verdict:
    match intent:
        case Cancel(reason):
            return await cancel(parts, happening, reason)
        case PullEnded() | PullReopened():
            return await note_pull(parts, happening, intent)
        case BranchMoved():
            return await note_branch(parts, happening)
        case PullEdited():
            return await note_base(parts, happening)
        case RepositoryChanged():
            return await note_repository(parts, happening, intent)
        case Unlocked():
            return await note_unlocked(parts, happening)
