"""The repository's mirror on this host, brought to a commit by a recorded operation."""

from __future__ import annotations

from app.observability.crashpoints import crashpoint
from worker.mirrors import has_commit, mirror_path
from worker.operations import forget_done, run_operation
from worker.step import Step


async def mirror_ready(step: Step, sha: str, patience_s: float) -> bool:
    """Whether the mirror has that commit; waits up to `patience_s` for it to be fetched."""
    path = mirror_path(step.parts, step.spec.repo_id)
    if await has_commit(path, sha):
        return True
    name = f"mirror:{step.parts.host_id}:{step.spec.repo_id}:{sha}"

    async def fetch() -> None:
        crashpoint("mirror.before")
        await step.parts.github.fetch_mirror(step.repo, path)
        crashpoint("mirror.after")

    if not await run_operation(step.parts, name, fetch, patience_s=patience_s):
        return False
    await forget_done(step.parts, name)
    # Not there after a fetch: the mirror was removed, or the branch moved meanwhile. The next look fetches again.
    return await has_commit(path, sha)
