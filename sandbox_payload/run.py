"""One run of the payload: its parts put together, its ends."""

from __future__ import annotations

import asyncio
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any

from claude_agent_sdk import ClaudeSDKError

from sandbox_payload.activity import Activity
from sandbox_payload.agent import Agent
from sandbox_payload.changes import Changes
from sandbox_payload.closing import Closing, EvidenceBook, evidence_tool
from sandbox_payload.command import run_command
from sandbox_payload.git import GitFailed
from sandbox_payload.handover import AppAway, Handover, until_reached
from sandbox_payload.heartbeat import Heartbeat
from sandbox_payload.inbox import Inbox
from sandbox_payload.inputs import Inputs
from sandbox_payload.link import Link, LinkError, NotAuthorized
from sandbox_payload.link_files import FilesLink
from sandbox_payload.options import agent_options
from sandbox_payload.outcome import TERMINATED, Outcome, judge_not_started
from sandbox_payload.planning import Planning
from sandbox_payload.processes import end_descendants
from sandbox_payload.progress import Progress, read_progress, record_progress
from sandbox_payload.reports import Reports
from sandbox_payload.rounds import COMMAND_LIMIT_S, Rounds, Work
from sandbox_payload.sender import Sender
from sandbox_payload.session import open_session
from sandbox_payload.spool import Spool
from sandbox_payload.start_tree import read_start_tree
from sandbox_payload.steering import Steering
from sandbox_payload.submission_tools import NO_TOOLS, OwnTools, submission_tools
from sandbox_payload.submissions import Submissions
from sandbox_payload.thread_answers import AnswerBook, answer_tool
from sandbox_payload.turns import Turns
from sandbox_payload.wire import PROTOCOL_VERSION, EventType, ExitCode, Message
from sandbox_payload.wire.left import SPOOL_DIR

WRAP_UP_S = 16.0
"""From SIGTERM to the last upload; with closing and flushing it stays below 20 s."""
FLUSH_S = 30.0
FLUSH_TERMINATED_S = 3.0
ACK_LIMIT_S = 600.0


class _Stop(Enum):
    TERMINATED = "terminated"
    ENDED = "ended"


class Run:
    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._spool = Spool(inputs.state / SPOOL_DIR)
        self._link = _open_link(inputs)
        self._activity = Activity()
        self._progress = read_progress(inputs.state)
        self._activity.round = self._progress.round
        self._changes = Changes(inputs.workspace, inputs.state)
        report = self._spool.append
        self._agent = Agent(self._activity, Reports(report, self._activity), self._changes)
        self._steering = Steering(self._agent, report, self._acknowledge, inputs.state / "given.json")
        self._handover = Handover(inputs, self._link, report, self._activity)
        self._handover.taken_in = lambda: self._steering.given
        self._turns = Turns(inputs, self._agent, self._steering, self._handover, report)
        self._rounds = Rounds(inputs, self._agent, self._steering, self._handover, report)
        self._acks: set[asyncio.Task[None]] = set()
        self._stop: asyncio.Future[_Stop] = asyncio.get_running_loop().create_future()

    async def execute(self) -> ExitCode:
        """Runs to the end, whichever it is; the exit code tells which."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._note_stop, _Stop.TERMINATED)

        def on_ended() -> None:
            loop.call_soon_threadsafe(self._note_stop, _Stop.ENDED)

        sender = Sender(self._spool, self._link, on_ended)
        heartbeat = Heartbeat(self._spool, self._activity, self._inputs.brief.heartbeat_s)

        def on_message(message: Message) -> None:
            loop.call_soon_threadsafe(self._steering.take, message)

        inbox = Inbox(self._link, on_message, on_ended)
        sender.start()
        heartbeat.start()
        work = asyncio.create_task(self._work(inbox), name="work")
        either: set[asyncio.Future[Any]] = {work, self._stop}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        code = await self._ended_by_itself(work) if work.done() else await self._stopped_early(work)
        inbox.stop()
        heartbeat.stop()
        await asyncio.to_thread(end_descendants)
        await self._agent.close()
        await self._leave(code)
        sender.stop()
        self._spool.close()
        return code

    async def _work(self, inbox: Inbox) -> ExitCode:
        found: list[tuple[str, dict[str, Any]]] = []
        opening = await asyncio.to_thread(
            open_session, self._inputs, self._progress, lambda kind, data: found.append((kind, data))
        )
        self._activity.session_id = opening.session_id
        self._activity.cost_before_usd = opening.cost_before_usd
        self._report_start()
        for kind, data in found:
            self._spool.append(kind, data)
        try:
            await asyncio.to_thread(self._changes.begin)
        except GitFailed as error:
            self._spool.append(EventType.ERROR, {"reason": "work_tree_unreadable", "detail": str(error)})
        await self._set_up()
        work: Work = self._turns.run
        own_tools = NO_TOOLS
        if self._inputs.brief.plans:
            work, own_tools = await self._planning()
        elif self._inputs.brief.criteria:
            work, own_tools = self._closing()
        if not self._inputs.brief.plans:
            book = AnswerBook(self._activity, self._inputs.state)
            self._handover.answers = book
            own_tools += answer_tool(book)
        begun = Progress(
            opening.session_id, self._activity.round, opening.prompt is None, opening.cost_before_usd
        )
        record_progress(self._inputs.state, begun)
        options = agent_options(self._inputs, opening, own_tools, self._agent.note_stderr)
        try:
            await self._agent.start(options, self._steering.note_receipt)
        except ClaudeSDKError as error:
            return await self._not_started(error)
        steering = asyncio.create_task(self._steering.run(), name="steering")
        inbox.start()
        try:
            return await self._rounds.run(opening, work)
        finally:
            steering.cancel()

    def _closing(self) -> tuple[Work, OwnTools]:
        """The same of a closing sandbox."""
        criteria = self._inputs.brief.criteria
        book = EvidenceBook(criteria, self._inputs.state)
        self._handover.evidence = book
        return Closing(self._turns, book).work, evidence_tool(criteria, book)

    async def _planning(self) -> tuple[Work, OwnTools]:
        """What fills the rounds of a planning sandbox, and the agent's tools for it."""
        inputs, report = self._inputs, self._spool.append
        exists: Callable[[str], bool] = _anything
        try:
            tree = await asyncio.to_thread(read_start_tree, inputs.workspace, inputs.brief.start_sha)
            exists = tree.__contains__
        except GitFailed as error:  # the app looks again on arrival
            report(EventType.ERROR, {"reason": "start_commit_unreadable", "detail": str(error)})

        def report_phase(event_type: str, data: dict[str, Any]) -> None:
            report(event_type, {**data, "session_id": self._activity.session_id})

        submissions = Submissions(inputs.brief, inputs.state, report_phase, exists)
        self._agent.watchers.append(submissions.watch)
        return Planning(self._turns, submissions, report_phase).work, submission_tools(submissions)

    async def _set_up(self) -> None:
        """The repository's setup command; its failure is told and left to the agent to deal with."""
        command = self._inputs.brief.setup_command
        if command and not self._progress.begun:
            with self._activity.commanding("setup command"):
                done = await run_command(command, self._inputs.workspace, COMMAND_LIMIT_S)
            self._spool.append(EventType.SYSTEM_MESSAGE, {"subtype": "setup_command", **done.model_dump()})
            await asyncio.to_thread(self._changes.look)

    async def _not_started(self, error: ClaudeSDKError) -> ExitCode:
        outcome = judge_not_started(error)
        await self._handover.finish(outcome, None, time.monotonic() + 60)
        self._spool.append(EventType.FAILED, {"round": 1, "reason": outcome.reason, "detail": outcome.detail})
        return outcome.exit_code

    async def _ended_by_itself(self, work: asyncio.Task[ExitCode]) -> ExitCode:
        try:
            return await work
        except NotAuthorized:
            return ExitCode.NOT_AUTHORIZED
        except (AppAway, LinkError) as error:
            self._spool.append(EventType.ERROR, {"reason": "app_unreachable", "detail": str(error)})
            return ExitCode.APP_UNREACHABLE
        except Exception as error:  # noqa: BLE001 - the process boundary: our own fault must be told, too
            return await self._broken(error)

    async def _broken(self, error: Exception) -> ExitCode:
        trace = "".join(traceback.format_exception(error))[-4_000:]
        self._spool.append(EventType.ERROR, {"reason": "payload_error", "detail": trace})
        outcome = Outcome(
            "failed", "payload_error", f"{type(error).__name__}: {error}", ExitCode.AGENT_FAILED
        )
        await asyncio.to_thread(end_descendants)
        with suppress(AppAway, LinkError):
            await self._handover.finish(outcome, None, time.monotonic() + 60)
        self._spool.append(EventType.FAILED, {"reason": outcome.reason, "detail": outcome.detail})
        return outcome.exit_code

    async def _stopped_early(self, work: asyncio.Task[ExitCode]) -> ExitCode:
        """SIGTERM: saves what there is. The app ended this sandbox: only ends."""
        deadline = time.monotonic() + WRAP_UP_S
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        if self._stop.result() is _Stop.ENDED:
            return ExitCode.NOT_AUTHORIZED
        if self._rounds.in_round:
            with suppress(TimeoutError, AppAway, LinkError, GitFailed):
                async with asyncio.timeout(WRAP_UP_S):
                    await self._wrap_up(deadline)
        return ExitCode.TERMINATED

    async def _wrap_up(self, deadline: float) -> None:
        self._spool.append(EventType.INTERRUPTED, {"by": "termination"})
        await self._agent.halt()
        await asyncio.to_thread(end_descendants)
        await self._agent.close()
        with suppress(GitFailed):
            await self._handover.checkpoint(deadline)
        await self._handover.finish(TERMINATED, None, deadline)

    async def _leave(self, code: ExitCode) -> None:
        """The last word, then as much of the spool as the app takes in time."""
        self._spool.append(EventType.SHUTDOWN, {"exit_code": int(code), "reason": code.name.lower()})
        if code is ExitCode.NOT_AUTHORIZED:
            return
        flush_s = FLUSH_TERMINATED_S if code is ExitCode.TERMINATED else FLUSH_S
        if self._acks:
            await asyncio.wait(self._acks, timeout=flush_s)
        await asyncio.to_thread(self._spool.wait_empty, flush_s)

    def _report_start(self) -> None:
        brief = self._inputs.brief
        self._spool.append(
            EventType.STARTED,
            {
                "protocol": PROTOCOL_VERSION,
                "title": brief.title,
                "repository": brief.repository,
                "branch": brief.branch,
                "start_sha": brief.start_sha,
                "model": brief.model,
                "round": self._activity.round,
                "resumed": self._progress.begun or brief.resume_session_id is not None,
                "session_id": self._activity.session_id,
            },
        )

    def _acknowledge(self, message_id: str) -> None:
        """Tells the app, in the background and until it hears, that the model has been given the message."""
        task = asyncio.create_task(self._acknowledge_until_heard(message_id))
        self._acks.add(task)
        task.add_done_callback(self._acks.discard)

    async def _acknowledge_until_heard(self, message_id: str) -> None:
        try:
            await until_reached(
                lambda: self._link.acknowledge_message(message_id), time.monotonic() + ACK_LIMIT_S
            )
        except NotAuthorized:
            self._note_stop(_Stop.ENDED)
        except (AppAway, LinkError) as error:
            told = {"reason": "acknowledgement_failed", "message_id": message_id, "detail": str(error)}
            self._spool.append(EventType.ERROR, told)

    def _note_stop(self, stop: _Stop) -> None:
        if not self._stop.done():
            self._stop.set_result(stop)


def _open_link(inputs: Inputs) -> Link:
    sandbox_id = inputs.brief.sandbox_id
    if inputs.relayed:
        return FilesLink(inputs.state, sandbox_id)
    return Link(inputs.app_url, sandbox_id, inputs.token)


def _anything(_path: str) -> bool:
    return True


async def run(inputs: Inputs) -> ExitCode:
    """Runs the payload with `inputs`; see ExitCode."""
    return await Run(inputs).execute()
