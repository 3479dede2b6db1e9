"""A look at GitHub's live state, for what no delivery told (lost for good, or never sent): issues and pull requests of
work under way, what was said there, and labels that nobody heard of. What is found is recorded as intake records what a
delivery tells.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import structlog

from app.db.deliveries import find_oldest_unhandled
from app.db.effects import record_notice
from app.db.lifecycle import record_base, record_branch_told
from app.db.locks import claim_lock, passing_owner
from app.db.looks import LiveWork, list_label_deliveries, list_live_work, list_open_repositories
from app.db.models import Repository
from app.db.specs import find_live_spec, find_newest_label_event, record_cancel, record_pull_state
from app.domain.errors import Denied, Gone, OutsideError
from app.domain.ids import IssueNumber
from app.domain.labels import carries_label
from app.domain.notices import LABEL_UNHEARD
from app.domain.ports import Issue, PullRequest, RepoRef
from worker.intake.heard_before import told_label_at
from worker.label_names import label_names
from worker.parts import Parts
from worker.supervise.unheard_words import UnheardWords, ref_of

log = structlog.get_logger("worker.live_look")

EVERY = timedelta(minutes=10)
SETTLED_FOR = timedelta(minutes=10)
"""A label is younger than this: its delivery may still be on its way."""
SAME = timedelta(seconds=5)
"""By how much GitHub's own times of one label event may differ, in its delivery and in the issue's history."""
MAX_REPOSITORIES = 50
"""Whose labels are looked at in one look, in turns: three requests each, and an installation has 5,000 an hour."""


class LiveLook:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._words = UnheardWords(parts)
        self._next_repo_id = 0
        self._settled: dict[tuple[int, int, str], str] = {}
        """A cache: issues (repository, number, label) about which nothing is to be said, as they stood then."""

    async def look(self) -> int:
        """How many facts were found. In one worker at a time, at most every ten minutes: else 0."""
        now = self._parts.clock()
        owner = passing_owner(self._parts.worker_id, now)
        async with self._parts.db.write() as session:
            if not await claim_lock(session, "live-look", owner, now, EVERY):
                return 0
        async with self._parts.db.read() as session:
            live = await list_live_work(session)
            repositories = await list_open_repositories(session)
        found = 0
        for work in live:
            found += await self._guarded(self._look_at_work(work), work.repository)
        for repository in self._in_turn(repositories):
            found += await self._guarded(self._look_for_labels(repository), repository)
        for work in self._words.in_turn(live):
            found += await self._guarded(self._words.look_at(work), work.repository)
        return found

    def _in_turn(self, repositories: Sequence[Repository]) -> Sequence[Repository]:
        """The next ones by number, from the beginning again after the last. Which those are need not survive."""
        ahead = [one for one in repositories if one.id >= self._next_repo_id]
        chosen = [*ahead, *repositories[: len(repositories) - len(ahead)]][:MAX_REPOSITORIES]
        self._next_repo_id = chosen[-1].id + 1 if chosen else 0
        return chosen

    async def _guarded(self, look: Awaitable[int], repository: Repository) -> int:
        """One repository that can't be read does not keep the others from being looked at."""
        try:
            return await look
        except OutsideError as error:
            log.info("look.put_off", repo_id=repository.id, error=str(error))
            return 0

    # ------------------------------------------------------------ live work

    async def _look_at_work(self, work: LiveWork) -> int:
        ref = ref_of(work.repository)
        if work.pull_number is not None and work.pull_state == "open":
            with suppress(Gone, Denied):  # what that means, the issue tells
                pull = await self._parts.github.fetch_pull(ref, work.pull_number)
                if pull.merged or pull.state == "closed":
                    return await self._record_pull(work, merged=pull.merged)
                await self._record_moves(work, pull)
        try:
            issue = await self._parts.github.fetch_issue(ref, IssueNumber(work.issue_number))
        except Gone:
            return await self._record_cancel(work, await self._why_gone(ref))
        except Denied as denied:
            if denied.reason != "suspended":
                raise
            return await self._record_cancel(work, "access_lost")
        if issue.state == "closed":
            return await self._record_cancel(work, "issue_closed")
        if not carries_label(issue.labels, issue.label_ids, work.trigger_label_id, work.trigger_label):
            return await self._record_cancel(work, "label_removed")
        return 0

    async def _why_gone(self, ref: RepoRef) -> str:
        """An issue can't be read: it alone, or the whole repository."""
        try:
            await self._parts.github.fetch_repository(ref)
        except (Gone, Denied):
            return "access_lost"
        return "issue_deleted"

    async def _record_pull(self, work: LiveWork, *, merged: bool) -> int:
        now = self._parts.clock()
        async with self._parts.db.write() as session:
            await record_pull_state(session, work.spec_id, "merged" if merged else "closed", now)
            await record_cancel(session, work.spec_id, "pull_merged" if merged else "pull_closed", now)
        log.info("fact.found", spec_id=work.spec_id, fact="pull_merged" if merged else "pull_closed")
        return 1

    async def _record_moves(self, work: LiveWork, pull: PullRequest) -> None:
        """Another head than what we know of, or another base. A step or a write that finds nothing new changes nothing."""
        now = self._parts.clock()
        moved = pull.head_sha not in {work.head_sha, work.push_sha}
        if not moved and pull.base_ref == work.base_branch:
            return
        async with self._parts.db.write() as session:
            if moved:
                await record_branch_told(session, work.spec_id, now)
            await record_base(session, work.spec_id, pull.base_ref, now)
        log.info("fact.found", spec_id=work.spec_id, fact="branch_moved" if moved else "retargeted")

    async def _record_cancel(self, work: LiveWork, reason: str) -> int:
        async with self._parts.db.write() as session:
            found = await record_cancel(session, work.spec_id, reason, self._parts.clock())
        if found:
            log.info("fact.found", spec_id=work.spec_id, fact=reason)
        return int(found)

    # ------------------------------------------------------------ labels

    async def _look_for_labels(self, repository: Repository) -> int:
        async with self._parts.db.read() as session:
            if await find_oldest_unhandled(session) is not None:
                return 0  # what is not read yet may be what tells of a label
        labels = await label_names(self._parts, ref_of(repository), repository.default_branch)
        found = 0
        for label in (labels.quick, labels.agent, labels.plan):
            for issue in await self._parts.github.fetch_labeled_issues(ref_of(repository), label):
                found += await self._look_at_label(repository, issue, label)
        return found

    async def _look_at_label(self, repository: Repository, issue: Issue, label: str) -> int:
        """Whether it was set while we should have heard of it, long enough ago, and we have not."""
        key = (repository.id, issue.number, label)
        if self._settled.get(key) == issue.updated_at:
            return 0
        async with self._parts.db.read() as session:
            if await find_live_spec(session, repository.id, issue.number) is not None:
                return 0
        labeled_at = await self._parts.github.fetch_labeled_at(ref_of(repository), issue.number, label)
        if labeled_at is not None and labeled_at > self._parts.clock() - SETTLED_FOR:
            return 0
        found = 0
        if labeled_at is not None and await self._is_unheard(repository, issue, label, labeled_at):
            found = await self._ask_again(repository, issue, label, labeled_at)
        self._settled[key] = issue.updated_at
        return found

    async def _is_unheard(
        self, repository: Repository, issue: Issue, label: str, labeled_at: datetime
    ) -> bool:
        since = repository.heard_since_at
        # GitHub's times have no fraction of a second.
        if since is None or labeled_at < since.replace(microsecond=0):
            return False
        async with self._parts.db.read() as session:
            newest = await find_newest_label_event(session, repository.id, issue.number)
            deliveries = await list_label_deliveries(session, repository.id, issue.number)
        if newest is not None and newest >= labeled_at - SAME:
            return False
        told = (told_label_at(delivery, label) for delivery in deliveries)
        return all(moment is None or abs(moment - labeled_at) > SAME for moment in told)

    async def _ask_again(self, repository: Repository, issue: Issue, label: str, labeled_at: datetime) -> int:
        """Nobody heard who set it, nor what the issue said then: both are needed, so a person is asked to set it again."""
        key = f"unheard:{issue.number}:{labeled_at:%Y%m%dT%H%M%S}"
        repo, text = (repository.installation_id, repository.id), LABEL_UNHEARD.format(label=label)
        async with self._parts.db.write() as session:
            effect = await record_notice(session, repo, issue.number, key, text, self._parts.clock())
        return int(effect is not None)
