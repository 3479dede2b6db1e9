"""Everything that crosses the sandbox boundary, in both directions.

The only package that both sides import. Both treat what they read through it as data of a stranger: models ignore
unknown fields (a newer side may add some) and refuse wrong types; sizes are capped by whoever reads the bytes.
Versioned by `PROTOCOL_VERSION`: a payload and an app of different versions refuse each other in words.
"""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, Field, StringConstraints

from sandbox_payload.wire.answers import MAX_ANSWERS, ThreadAnswer
from sandbox_payload.wire.base import Text, Wire
from sandbox_payload.wire.evidence import Criterion, Evidence
from sandbox_payload.wire.plan import PhaseOrder

PROTOCOL_VERSION = 2

RESULT_REF = "refs/issuewright/result"
"""The one ref that a result or checkpoint bundle carries."""

MAX_EVENTS_BYTES = 1_000_000
MAX_ARTIFACT_BYTES = 100_000_000
MAX_WAIT_S = 25
MAX_COUNT = 1_000_000
"""Of rounds and turns, of seconds and of USD in a manifest: beyond all that happens, within all that is stored."""
HEARTBEAT_S = 30
MAX_SESSION_ID = 64

Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]


class EventType(StrEnum):
    """The names a sandbox reports under (contract, section 5). Unknown ones are stored too."""

    STARTED = "agent.started"
    SYSTEM_MESSAGE = "agent.system_message"
    ASSISTANT_MESSAGE = "agent.assistant_message"
    MESSAGE = "agent.message"
    TOOL_USE = "agent.tool_use"
    TOOL_COMPLETED = "agent.tool_completed"
    USER_TOOL_RESULT = "agent.user_tool_result"
    FILE_EDITED = "agent.file_edited"
    MESSAGE_INJECTED = "agent.message_injected"
    WAITING = "agent.waiting"
    HEARTBEAT = "agent.heartbeat"
    INTERRUPTED = "agent.interrupted"
    ERROR = "agent.error"
    COMPLETED = "agent.completed"
    FAILED = "agent.failed"
    SHUTDOWN = "agent.shutdown"
    PHASE_STARTED = "spec.phase_started"
    PHASE_COMPLETED = "spec.phase_completed"
    PHASE_FAILED = "spec.phase_failed"
    PHASE_RETRY = "spec.phase_retry"


class MessageType(StrEnum):
    USER_MESSAGE = "user_message"
    INTERRUPT = "interrupt"
    GUARDIAN_NUDGE = "guardian_nudge"
    SYSTEM = "system"


class ArtifactName(StrEnum):
    CHECKPOINT = "checkpoint.bundle"
    RESULT = "result.bundle"
    MANIFEST = "manifest.json"
    TRANSCRIPT = "transcript.tar.gz"


class ExitCode(IntEnum):
    """How the payload process ends; the keeper and the provider pass it on."""

    OK = 0
    AGENT_FAILED = 10
    BAD_INPUTS = 20
    NOT_AUTHORIZED = 30
    """The app said 401 or 403: this sandbox has ended or is not known."""
    APP_UNREACHABLE = 31
    TIME_LIMIT = 40
    TERMINATED = 143


class Event(Wire):
    """One numbered thing a sandbox reports. `seq` starts at 1 and has no gaps within one sandbox."""

    seq: int = Field(ge=1, le=2**53)
    event_type: str = Field(min_length=1, max_length=100)
    event_data: dict[str, Any] = Field(default_factory=dict)
    source: Literal["agent", "worker"] = "agent"
    timestamp: AwareDatetime


class EventBatch(Wire):
    events: list[Event] = Field(max_length=1000)


class EventsReceipt(Wire):
    status: Literal["received"] = "received"
    last_seq: int


class Message(Wire):
    id: str
    seq: int
    message_type: str
    content: str
    created_at: AwareDatetime


class MessagesPage(Wire):
    messages: list[Message]
    last_seq: int


class Brief(Wire):
    """What a sandbox is for: `brief.json` in the inputs directory. Texts stand beside it as files."""

    version: int = PROTOCOL_VERSION
    sandbox_id: str
    spec_id: str
    task_id: str | None = None
    phase: str | None = None
    title: str = ""
    repository: str
    branch: str
    start_sha: Sha
    """The commit the work tree stands on at the start; every result descends from it."""
    model: str | None = None
    permission_mode: Literal["acceptEdits", "bypassPermissions"] = "acceptEdits"
    max_turns: int = Field(default=150, ge=1)
    max_budget_usd: float = Field(default=10.0, gt=0)
    task_timeout_s: int = Field(default=3600, ge=1)
    idle_s: int = Field(default=600, ge=0)
    heartbeat_s: float = Field(default=HEARTBEAT_S, gt=0)
    keep_s: float = Field(default=60.0, gt=0)
    """How much of a running round may be lost with the sandbox."""
    resume_session_id: str | None = None
    setup_command: str | None = None
    test_command: str | None = None
    phases: list[PhaseOrder] = Field(default_factory=list)
    """The planning phases, in order, finished ones too (they may be revised); empty for a sandbox that works on a task."""
    criteria: list[Criterion] = Field(default_factory=list)
    """The acceptance criteria that the closing task of a plan shows to be met; empty for every other sandbox."""
    outputs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """What phases came to that were finished in an earlier sandbox, by phase: they are not asked for again."""
    author_name: str = "Issuewright"
    author_email: str = "issuewright@users.noreply.github.com"

    @property
    def plans(self) -> bool:
        """Whether this is a planning sandbox: it hands in outputs of phases, and no changes of files."""
        return bool(self.phases)


ManifestStatus = Literal["completed", "failed", "cancelled"]


class CommandReport(Wire):
    """How a repository's own command (`setup`, `test`) went inside the sandbox."""

    command: Text = Field(max_length=2000)
    exit_code: int | None = Field(default=None, ge=-(2**31), lt=2**31)
    """None when it was cut at its time limit."""
    seconds: float = Field(default=0.0, ge=0, le=MAX_COUNT, allow_inf_nan=False)
    output: Text = Field(default="", max_length=20_000)
    """The end of what it printed on either stream."""


def _usable_session(session_id: str | None) -> str | None:
    return (
        session_id if session_id and len(session_id) <= MAX_SESSION_ID and session_id.isprintable() else None
    )


class Manifest(Wire):
    """What a round of work came to: `manifest.json`, uploaded last, so it completes a result.

    `status` and the texts are the sandbox's own words; what counts is what the app finds in the bundle.
    """

    version: int = Field(default=PROTOCOL_VERSION, ge=1, le=MAX_COUNT)
    sandbox_id: str
    round: int = Field(ge=1, le=MAX_COUNT)
    """Counts the results of one sandbox: 1 for the task itself, then one more for each later conversation round."""
    start_sha: Sha
    head_sha: Sha
    bundle_sha256: str | None = None
    """None when head equals start: git makes no empty bundles."""
    status: ManifestStatus
    reason: Text = Field(default="", max_length=100)
    """Short and stable: `max_turns`, `budget`, `model_error`, `cli_killed`, `time_limit`, `terminated`, …"""
    detail: Text = Field(default="", max_length=4000)
    summary: Text = Field(default="", max_length=20_000)
    """The agent's last text."""
    session_id: Annotated[str | None, AfterValidator(_usable_session)] = None
    """None also in the place of one that no agent has."""
    turns: int = Field(default=0, ge=0, le=MAX_COUNT)
    cost_usd: float = Field(default=0.0, ge=0, le=MAX_COUNT, allow_inf_nan=False)
    test: CommandReport | None = None
    """The repository's test command, run after the agent was done; None when there is none or it was not reached."""
    evidence: list[Evidence] = Field(default_factory=list, max_length=2_000)
    """Of a closing task: what the agent handed in about the criteria."""
    taken_in: list[str] = Field(default_factory=list, max_length=5_000)
    """Ids of the messages that the model has been given in this sandbox so far."""
    answers: list[ThreadAnswer] = Field(default_factory=list, max_length=MAX_ANSWERS)
    """To threads of reviews, as the agent handed them in in this round."""
    finished_at: AwareDatetime


BRIEF_FILE = "brief.json"
PROMPT_FILE = "prompt.md"
PROMPT_ANEW_FILE = "prompt-anew.md"
"""In its stead, where the session to go on with can't be restored; only beside a transcript."""
SYSTEM_FILE = "system.md"
TRANSCRIPT_FILE = "transcript.tar.gz"

LOADED = "loaded"
"""In the state directory: a file that is there once a payload that is held has loaded and waits."""
ENVIRONMENT = (
    "SANDBOX_ID", "SPEC_ID", "SPEC_PHASE", "TASK_ID", "PROJECT_ID", "USER_ID", "CALLBACK_URL", "HTTPS_PROXY",
    "SANDBOX_TOKEN_FILE", "BRANCH_NAME", "GITHUB_REPO_OWNER", "GITHUB_REPO_NAME", "MODEL", "ANTHROPIC_BASE_URL",
    "RESUME_SESSION_ID",
)  # fmt: skip
"""The variables of the contract's section 5, all that a provider sets beside PATH, HOME, LANG and PYTHON*."""


def utc_text(at: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, the form timestamps travel in."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
