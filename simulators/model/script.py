"""What a scenario is: pure data, checked when it is defined.

A script is a list of turns, a turn is a list of steps, a step is one answer of the model. A turn ends with a
step that calls no tool; the next turn answers the next thing the person says. Steps after a text-only one
are reached only when the CLI itself asks to go on (see `position`).
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from simulators.model.patterns import check_pattern

Pattern = Annotated[str, AfterValidator(check_pattern)]

FaultKind = Literal[
    "status",  # an error answer: status, error_type, message, retry_after_s
    "no_bytes",  # the request is taken and nothing is ever sent
    "stall",  # half of the answer, then silence with the connection open
    "cut",  # half of the answer, then the connection is closed
    "malformed",  # broken JSON inside the stream
    "empty",  # a 200 without a single event
    "html",  # a 200 with a web page, as a captive proxy sends
    "max_tokens",  # the answer is cut off by the output limit
    "refusal",  # the safeguards' stop reason
    "missing_usage",  # no usage numbers anywhere
    "absurd_usage",  # usage numbers beyond any context window
]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Fault(_Data):
    """Something that goes wrong instead of, or while, giving the step's answer.

    `times`: how many requests it hits before the step is answered normally; None means always.
    `gate`: `no_bytes` and `stall` end (the connection is closed) when this gate is opened.
    """

    kind: FaultKind
    times: int | None = Field(default=1, ge=1)
    status: int = Field(default=529, ge=400, le=599)
    error_type: str | None = None
    message: str | None = None
    retry_after_s: float | None = Field(default=None, ge=0)
    gate: str | None = None


class ToolUse(_Data):
    """One tool call. Strings anywhere in `input` may hold `{workspace}`, `{session}` and `{found:NAME}`."""

    name: str
    input: dict[str, Any] = Field(default_factory=dict)


class Step(_Data):
    """One answer: text, tool calls, or both; or a fault alone, which then strikes before the next answer.

    `capture`: name to regular expression; group 1 (or the whole match) found in the results of this step's
    tools is what `{found:NAME}` stands for later. `on_error`: steps played before going on when a tool of
    this step reports an error. `gate`: the answer waits until the test opens it, `gate_at="middle"` after
    half of it was sent. `usage` overrides single numbers of the computed usage.
    """

    text: str | None = None
    tool_use: list[ToolUse] = Field(default_factory=list)
    capture: dict[str, Pattern] = Field(default_factory=dict)
    on_error: list["Step"] = Field(default_factory=list)
    usage: dict[str, int] | None = None
    delay_s: float = Field(default=0, ge=0, le=600)
    gate: str | None = None
    gate_at: Literal["start", "middle"] = "start"
    fault: Fault | None = None

    @property
    def speaks(self) -> bool:
        """Whether the step has an answer of its own (a fault alone has none)."""
        return self.text is not None or bool(self.tool_use)


class MessageRule(_Data):
    """Steps played once per conversation when something the person or a hook says matches `match`."""

    match: Pattern
    steps: list[Step] = Field(min_length=1)


class Chapter(_Data):
    """Turns that a prompt matching `match` begins, wherever the script stood; its later turns follow as usual."""

    match: Pattern
    turns: list[list[Step]] = Field(min_length=1)


class Subagent(_Data):
    """What a subagent plays when its prompt matches."""

    match: Pattern = ""
    turns: list[list[Step]]


class VerdictRule(_Data):
    """A judgement in a fixed shape: the input of the forced tool, when what is to be judged matches `match`.

    `step` answers instead where the model does not call the tool, or not as asked.
    """

    match: Pattern = ""
    input: dict[str, Any] = Field(default_factory=dict)
    step: Step | None = None


class FaultRule(_Data):
    """A fault by circumstances instead of by position; every condition given must hold.

    `scenario` and `session` are compared exactly, `model` and `body` are regular expressions.
    `after_tool_results`: only once the conversation holds at least so many tool results.
    """

    fault: Fault
    scenario: str | None = None
    session: str | None = None
    model: Pattern | None = None
    body: Pattern | None = None
    after_tool_results: int = 0


class Script(_Data):
    """A whole scenario. `faults` are looked at before the position is; `turns` are played outside of chapters.
    The first of the `verdicts` that matches is given, else a good one.
    """

    summary: str = ""
    turns: list[list[Step]] = Field(default_factory=list)
    chapters: list[Chapter] = Field(default_factory=list)
    on_message: list[MessageRule] = Field(default_factory=list)
    subagents: list[Subagent] = Field(default_factory=list)
    verdicts: list[VerdictRule] = Field(default_factory=list)
    faults: list[FaultRule] = Field(default_factory=list)
