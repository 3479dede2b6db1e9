"""From what a sandbox handed over to commits on the branch. The bundle is data of a stranger until it has passed here."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from app.db.models import Artifact, Sandbox
from app.db.sandboxes import find_artifact, get_artifact_bytes
from app.domain.commit_message import sanitize_commit_message
from app.domain.errors import Refused, ResultRefused, RetryAt
from app.domain.result_policy import (
    Accepted,
    NoChanges,
    PushRefused,
    ResultLimits,
    ResultPolicy,
    decide_result,
)
from app.domain.sanitize import sanitize_line
from app.git.diff import list_changed_paths, render_patch
from app.git.merge import Conflicted, merge_result
from app.git.result import Expected, open_result
from app.git.rewrite import rewrite_authors
from app.observability.crashpoints import crashpoint
from sandbox_payload.wire import ArtifactName, Manifest
from worker.flow.adopt import find_head, take_up_head
from worker.flow.mirror import mirror_ready
from worker.mirrors import find_branch_head, has_commit, mirror_path
from worker.step import Step

NO_BRANCH = "The branch is gone, so there is nothing that the result could be pushed onto."
PATIENCE_S = 15.0
FILES_SHOWN = 50
PATCH_BYTES = 20_000
"""How much of a refused result's diff is folded into the status comment."""


@dataclass(frozen=True)
class Taken:
    """What became of a result: `decision` of the policy, or that it can't be merged with what other tasks pushed
    meanwhile; `patch` of a refused one; `pushed` is the branch's new head.
    """

    decision: Accepted | NoChanges | PushRefused | Conflicted
    pushed: str | None = None
    patch: str = ""
    files: tuple[str, ...] = ()
    """What the push changed, as far as it is shown to people."""


async def take_result(step: Step, sandbox: Sandbox, name: ArtifactName, manifest: Manifest | None) -> Taken:
    """Check the bundle of that name on git objects, give its commits the App as author, push them to the branch; merged,
    where other tasks moved the branch on meanwhile.

    Running it again gives the same commits, so a push that happened before a crash is recognised. Raises RetryAt while
    the repository is being fetched.
    """
    quarantine = step.parts.home / "quarantine" / f"{sandbox.id}-{name.value}"
    bundle = quarantine.with_suffix(".bundle-in")
    try:
        stored = await _write_bundle(step, sandbox.id, name, bundle)
        if stored is None and manifest is None:
            return Taken(NoChanges("there is no checkpoint"))
        if stored is not None and manifest is not None and await _is_of_later_round(step, stored, manifest):
            manifest = None
        await _fetch_start(step, sandbox)
        return await _take(step, sandbox, manifest, (bundle, quarantine))
    except ResultRefused as refused:
        return Taken(PushRefused(refused.code, refused.detail, refused.paths))
    finally:
        await asyncio.to_thread(_remove, quarantine, bundle)


async def _take(step: Step, sandbox: Sandbox, manifest: Manifest | None, where: tuple[Path, Path]) -> Taken:
    bundle, quarantine = where
    spec = step.spec
    facts = await open_result(
        bundle if bundle.exists() else None,
        manifest,
        expected=Expected(sandbox.start_sha, await _base_now(step)),
        mirror=mirror_path(step.parts, spec.repo_id),
        quarantine=quarantine,
        limits=ResultLimits(),
    )
    # A later round that takes everything back is a change of what was delivered, not "nothing to change".
    delivered = sandbox.collected_round > 0 or spec.head_sha != spec.start_sha
    policy = ResultPolicy(
        protected=step.settings.protected_paths, canaries=step.parts.secrets, delivered=delivered
    )
    # The scan of a large result takes seconds: beside the event loop, which renews the lease meanwhile.
    decision = await asyncio.to_thread(decide_result, facts, policy)
    if isinstance(decision, PushRefused):
        patch = "" if decision.code == "secret" else await _patch(quarantine, facts.start_sha, facts.head_sha)
        return Taken(decision, patch=patch)
    if isinstance(decision, NoChanges):
        return Taken(decision)
    identity = await step.parts.identity()
    login, user_id = spec.labeler_login, spec.labeler_id
    new_head = await rewrite_authors(
        quarantine,
        sandbox.start_sha,
        facts.head_sha,
        author=f"{identity.bot_login} <{identity.email}>",
        trailers=(
            f"Co-authored-by: {sanitize_line(login, 60)} <{user_id}+{login}@users.noreply.github.com>",
        ),
        message_filter=sanitize_commit_message,
    )
    onto = spec.head_sha or sandbox.start_sha
    if not await has_commit(quarantine, onto) and not await _fetch_head(step):
        return Taken(PushRefused("moved", NO_BRANCH))
    merged = await merge_result(
        quarantine, onto, new_head,
        author=f"{identity.bot_login} <{identity.email}>", message=f"Merge the result of task {_key_of(step, sandbox)}",
    )  # fmt: skip
    if isinstance(merged, Conflicted):
        return Taken(merged)
    new_head = merged.sha
    if spec.push_sha != new_head:
        await step.save(push_sha=new_head)
    files = await list_changed_paths(quarantine, onto, new_head, FILES_SHOWN)
    try:
        pushed = await _push(step, quarantine, new_head)
    except Refused as refused:
        secret = refused.code == "secret"
        patch = "" if secret else await _patch(quarantine, facts.start_sha, facts.head_sha)
        return Taken(PushRefused(refused.code or "rejected", str(refused)), patch=patch)
    return Taken(decision, pushed=pushed, files=files)


async def _base_now(step: Step) -> str | None:
    """What people merged into the branch of its base since the work began is no change of the result. That came to the
    mirror with the commit that the result starts from, and with it the base as it stood then.
    """
    mirror, branch = mirror_path(step.parts, step.spec.repo_id), step.spec.base_branch
    return (await find_branch_head(mirror, branch) if branch else None) or step.spec.base_sha


async def _push(step: Step, quarantine: Path, sha: str) -> str:
    """Raises RetryAt when somebody else pushed meanwhile: then the result is merged onto theirs first."""
    spec = step.spec
    crashpoint("push.before")
    try:
        pushed = await step.parts.github.ensure_pushed(
            step.repo, quarantine, sha, spec.branch or "", spec.head_sha or ""
        )
    except Refused as refused:
        if refused.code == "moved" and await take_up_head(step):
            raise RetryAt("somebody else pushed meanwhile", step.later(0.2)) from None
        raise
    crashpoint("push.after")
    return pushed


def _key_of(step: Step, sandbox: Sandbox) -> str:
    return next((task.key for task in step.tasks if task.id == sandbox.task_id), step.task.key)


async def _fetch_start(step: Step, sandbox: Sandbox) -> None:
    """Another machine may have made the sandbox. Where the branch no longer leads to its start, nothing can be fetched:
    then `open_result` says so.
    """
    if await mirror_ready(step, sandbox.start_sha, PATIENCE_S):
        return
    head = await find_head(step)
    if head is not None and not await has_commit(mirror_path(step.parts, step.spec.repo_id), head):
        raise RetryAt("the repository is being fetched", step.later(1))


async def _fetch_head(step: Step) -> bool:
    """What others pushed, and our own merges with it, is needed here to merge with it. False when the branch is gone, and that commit may be with it."""
    if await mirror_ready(step, step.spec.head_sha or "", PATIENCE_S):
        return True
    if await find_head(step) is None:
        return False
    await take_up_head(step)  # who replaced that commit since left nothing of it to fetch
    raise RetryAt("the repository is being fetched", step.later(1))


async def _write_bundle(step: Step, sandbox_id: str, name: ArtifactName, path: Path) -> Artifact | None:
    """What is stored under that name; None when nothing is. Raises RetryAt when it was replaced while it was read."""
    async with step.parts.db.read() as session:
        artifact = await find_artifact(session, sandbox_id, name.value)
        if artifact is None:
            return None
        data = await get_artifact_bytes(session, artifact.id)
    if len(data) != artifact.size:
        raise RetryAt("a newer bundle came meanwhile", step.later(0.2))
    await asyncio.to_thread(path.parent.mkdir, 0o700, parents=True, exist_ok=True)
    await asyncio.to_thread(path.write_bytes, data)
    return artifact


async def _is_of_later_round(step: Step, bundle: Artifact, manifest: Manifest) -> bool:
    """A sandbox that works on hands in the next round's bundle before that round's manifest. It goes on from this round's
    commits, so it is judged by itself, as a checkpoint is; what its own manifest says is dealt with when it is there.
    """
    if bundle.sha256 == manifest.bundle_sha256:
        return False
    async with step.parts.db.read() as session:
        told = await find_artifact(session, bundle.sandbox_id, ArtifactName.MANIFEST.value)
        data = await get_artifact_bytes(session, told.id) if told else b""
    if told is None or bundle.created_at > told.created_at:
        return True
    return not data or Manifest.model_validate_json(data).round > manifest.round


async def _patch(quarantine: Path, start: str, head: str) -> str:
    text, cut = await render_patch(quarantine, start, head, PATCH_BYTES)
    return f"{text}\n[… cut here]" if cut else text


def _remove(quarantine: Path, bundle: Path) -> None:
    shutil.rmtree(quarantine, ignore_errors=True)
    bundle.unlink(missing_ok=True)


async def find_manifest(step: Step, sandbox: Sandbox) -> Manifest | None:
    """The newest manifest, or None. What it says is the sandbox's word: only its numbers and texts are used."""
    async with step.parts.db.read() as session:
        artifact = await find_artifact(session, sandbox.id, ArtifactName.MANIFEST.value)
        data = await get_artifact_bytes(session, artifact.id) if artifact else None
    return Manifest.model_validate_json(data) if data is not None else None
