"""What leaves the sandbox: checkpoint, result, transcript, manifest; uploaded until the app has them.

All of it lies ready in files before any of it is sent (`wire.left`): where the app is away for so long that the sandbox
ends meanwhile, a host may find it there.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from sandbox_payload.activity import Activity
from sandbox_payload.backoff import Backoff
from sandbox_payload.git import GitFailed
from sandbox_payload.inputs import Inputs
from sandbox_payload.link import Link, Refused, Unreachable
from sandbox_payload.outcome import Outcome
from sandbox_payload.reports import Report
from sandbox_payload.state import config_directory
from sandbox_payload.transcript import Fingerprint, SessionTooLarge, fingerprint, has_answer, pack_transcript
from sandbox_payload.wire import ArtifactName, CommandReport, EventType, Manifest
from sandbox_payload.wire.answers import ThreadAnswer
from sandbox_payload.wire.evidence import Evidence
from sandbox_payload.wire.left import KEPT_FILE, MANIFEST_FILE, TRANSCRIPT_FILE, WORK_FILE
from sandbox_payload.worktree import Head, Worktree

_WRONG_HASH_TRIES = 3
_T = TypeVar("_T")


class AppAway(Exception):
    """The app did not take an upload within the time there was."""


class HandedIn(Protocol):
    @property
    def rows(self) -> list[Evidence]: ...


class AnswersGiven(Protocol):
    @property
    def rows(self) -> list[ThreadAnswer]: ...


@dataclass(frozen=True)
class Saved:
    """The work as last bundled: `bundle` is None while nothing differs from the start."""

    head: Head
    bundle: Path | None


class Handover:
    def __init__(self, inputs: Inputs, link: Link, report: Report, activity: Activity) -> None:
        self._inputs = inputs
        self._link = link
        self._report = report
        self._activity = activity
        self._worktree = Worktree(inputs.workspace, inputs.state, inputs.brief)
        self.evidence: HandedIn | None = None
        """What a closing sandbox has on the criteria."""
        self.answers: AnswersGiven | None = None
        self.taken_in: Callable[[], list[str]] = list
        """Which messages the model has been given."""
        self._told_left_out: dict[str, str] = {}
        self._told_too_large = False
        self._saving = threading.Lock()
        """Held by the thread that reads the work tree or the session; one that nobody waits for any more, too."""
        self._sending = {name: threading.Lock() for name in ArtifactName}
        """Held while something is sent under that name: what was made first arrives first."""
        self._checkpointing = asyncio.Lock()
        self._kept_session: Fingerprint = frozenset()
        self._packed_session: Fingerprint = frozenset()
        self._kept_tree: tuple[str, ...] = (inputs.brief.start_sha,)

    async def checkpoint(self, deadline: float) -> Saved:
        """Commits what the turn left, bundles it and gives it to the app. Raises GitFailed, AppAway, LinkError.

        Of a planning sandbox the session is all there is to keep.
        """
        async with self._checkpointing:
            saved = await asyncio.to_thread(self._save)
            transcript = await self._packed()
            if self._inputs.brief.plans and transcript is not None:
                await self._upload(ArtifactName.TRANSCRIPT, transcript, deadline)
            if saved.bundle is not None:
                await self._upload(ArtifactName.CHECKPOINT, saved.bundle, deadline)
        return saved

    async def keep(self, deadline: float) -> None:
        """While the agent works: gives the app the session and the work as they are now, where they have changed.

        The session first: work that it does not know of is found in the work tree, the other way round it is not.
        Raises GitFailed, AppAway, LinkError.
        """
        async with self._checkpointing:
            config = config_directory(self._inputs.state)
            seen = await asyncio.to_thread(fingerprint, config)
            session_id = self._activity.session_id
            packed = seen != self._kept_session and session_id is not None
            transcript = None
            if packed and session_id is not None:
                if not await asyncio.to_thread(has_answer, config, session_id):
                    return
                transcript = await self._packed()
            head, bundle, failed = self._kept_tree, None, None
            try:
                if not self._inputs.brief.plans:
                    head, bundle = await asyncio.to_thread(self._snapshot)
            except GitFailed as error:
                failed = error
            if transcript is not None:
                await self._upload(ArtifactName.TRANSCRIPT, transcript, deadline)
            if packed:
                self._kept_session = seen
            if failed is not None:
                raise failed
            if bundle is not None:
                await self._upload(ArtifactName.CHECKPOINT, bundle, deadline)
            self._kept_tree = head

    async def finish(self, outcome: Outcome, test: CommandReport | None, deadline: float) -> None:
        """Hands over a whole round, the manifest last. Raises AppAway, LinkError.

        A repository that can't be read any more is said in the manifest instead of raising.
        """
        detail, head_sha, digest, bundle = outcome.detail, self._inputs.brief.start_sha, None, None
        try:
            saved = await asyncio.to_thread(self._save)
        except GitFailed as error:
            self._report(EventType.ERROR, {"reason": "work_tree_unreadable", "detail": str(error)})
            detail = f"{detail} The work tree could not be read: {error}".strip()
        else:
            head_sha = saved.head.sha
            detail = f"{detail} {saved.head.note}".strip()
            bundle = saved.bundle
            digest = await asyncio.to_thread(_digest_of, bundle) if bundle is not None else None
        transcript = await self._packed()
        path = self._write_manifest(self._manifest(outcome, detail, head_sha, digest, test))
        if bundle is not None and await self._upload(ArtifactName.RESULT, bundle, deadline) is None:
            detail = f"{detail} The result is too large to hand over.".strip()
            path = self._write_manifest(self._manifest(outcome, detail, head_sha, None, test))
        if transcript is not None:
            await self._upload(ArtifactName.TRANSCRIPT, transcript, deadline)
        await self._upload(ArtifactName.MANIFEST, path, deadline)

    def _write_manifest(self, manifest: Manifest) -> Path:
        path = self._inputs.state / MANIFEST_FILE
        fresh = path.with_suffix(".new")
        fresh.write_text(manifest.model_dump_json())
        return fresh.replace(path)

    def _save(self) -> Saved:
        if self._inputs.brief.plans:
            return Saved(Head(self._inputs.brief.start_sha), None)
        with self._saving:  # a cancelled checkpoint's thread may still be at it
            head = self._worktree.commit_leftovers()
            bundle = self._worktree.bundle(head.sha, self._inputs.state / WORK_FILE)
        fresh = {path: why for path, why in head.left_out.items() if self._told_left_out.get(path) != why}
        if fresh:
            self._told_left_out.update(fresh)
            self._report(EventType.SYSTEM_MESSAGE, {"subtype": "files_left_out", "files": fresh})
        return Saved(head, bundle)

    def _snapshot(self) -> tuple[tuple[str, ...], Path | None]:
        """What tells the work from what was kept before, and its bundle when that differs."""
        with self._saving:
            head = self._worktree.snapshot()
            # The same files make another commit each time; the agent's own commits count by themselves.
            told = (head.tree,) if head.committed else (head.sha,)
            if told == self._kept_tree:
                return told, None
            return told, self._worktree.bundle(head.sha, self._inputs.state / KEPT_FILE)

    def _pack(self) -> Path | None:
        state = self._inputs.state
        config, target = config_directory(state), state / TRANSCRIPT_FILE
        with self._saving:
            seen = fingerprint(config)
            if seen != self._packed_session or not target.exists():
                self._packed_session = seen if self._pack_session(config, target) else frozenset()
            return target if self._packed_session else None

    def _pack_session(self, config: Path, target: Path) -> bool:
        """Whether there is a session, and so an archive."""
        try:
            return pack_transcript(config, target) is not None
        except SessionTooLarge as error:
            if not self._told_too_large:
                self._told_too_large = True
                self._report(EventType.ERROR, {"reason": "session_too_large", "detail": str(error)})
            return True

    def _put(self, name: ArtifactName, path: Path) -> str:
        with self._sending[name]:
            return self._link.put_artifact(name, path)

    async def _packed(self) -> Path | None:
        """The session as it is now, in its file; None when there is none, or none that could be read (reported)."""
        try:
            return await asyncio.to_thread(self._pack)
        except OSError as error:
            self._report(EventType.ERROR, {"reason": "transcript_unreadable", "detail": str(error)})
            return None

    def _manifest(
        self, outcome: Outcome, detail: str, head_sha: str, digest: str | None, test: CommandReport | None
    ) -> Manifest:
        activity, brief = self._activity, self._inputs.brief
        return Manifest(
            sandbox_id=brief.sandbox_id,
            round=activity.round,
            start_sha=brief.start_sha,
            head_sha=head_sha,
            bundle_sha256=digest,
            status=outcome.status,
            reason=outcome.reason,
            detail=detail[:4_000],
            summary=activity.last_text[:20_000],
            session_id=activity.session_id,
            turns=activity.turns_of_model,
            cost_usd=activity.cost_usd,
            test=test,
            evidence=self.evidence.rows if self.evidence is not None else [],
            taken_in=self.taken_in()[:5_000],
            answers=self.answers.rows if self.answers is not None else [],
            finished_at=datetime.now(UTC),
        )

    async def _upload(self, name: ArtifactName, path: Path, deadline: float) -> str | None:
        """The file's SHA-256 once the app has it; None when the app will never take it (reported)."""
        try:
            return await until_reached(lambda: self._put(name, path), deadline)
        except Refused as error:
            told = {
                "reason": "artifact_refused",
                "name": name,
                "detail": str(error),
            }
            self._report(EventType.ERROR, told)
            return None


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def until_reached(call: Callable[[], _T], deadline: float) -> _T:
    """Repeats a call to the app while it is away, in a thread, until time.monotonic() is `deadline`.

    Raises AppAway then; NotAuthorized and Refused at once (a wrong hash is tried a few times: it is damage in transit).
    """
    backoff, wrong = Backoff(), 0
    while True:
        try:
            return await asyncio.to_thread(call)
        except Unreachable as error:
            wait_s, why = backoff.next_s(error.retry_after_s), str(error)
        except Refused as error:
            wrong += 1
            if error.status != 422 or wrong >= _WRONG_HASH_TRIES:
                raise
            wait_s, why = backoff.next_s(), str(error)
        if time.monotonic() + wait_s >= deadline:
            raise AppAway(why)
        await asyncio.sleep(wait_s)
