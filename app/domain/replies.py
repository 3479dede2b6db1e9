"""What is answered to commands and words of people: one short comment each, or a reaction. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.domain.sanitize import escape_markdown, sanitize_line
from app.domain.states import SpecState

EYES, ROCKET, THUMBS_UP, CONFUSED = "eyes", "rocket", "+1", "confused"
"""GitHub's names of 👀 queued, 🚀 taken in by the agent, 👍 done, 😕 no write access."""


class Approval(StrEnum):
    """What became of somebody's yes to a plan."""

    APPROVED = "approved"
    ALREADY = "already"
    STALE = "stale"
    """It names an older plan, or the plan has changed since it was shown."""
    SEVERAL = "several"
    """A label names no plan, and more than one has been shown."""
    NOT_AWAITED = "not_awaited"


class RetryRefusal(StrEnum):
    NOT_FOUND = "not_found"
    AT_WORK = "at_work"
    """This spec, or another one of the same issue, is live."""
    ENDING = "ending"
    """It is being stopped; or it has ended, and that is still being told."""
    DONE = "done"
    LABEL_GONE = "label_gone"
    """It was stopped by removing its label, and would be stopped again at once."""
    UNKNOWN_TASK = "unknown_task"
    UNKNOWN_PHASE = "unknown_phase"
    LATER_PHASE = "later_phase"
    """Later than the first unfinished one."""


@dataclass(frozen=True)
class RetryRefused:
    """`phases`: those that can be named, for the last two reasons; `names`: tasks that can, for UNKNOWN_TASK.
    `state`: of the live spec, for AT_WORK.
    """

    reason: RetryRefusal
    phases: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    state: SpecState | None = None


@dataclass(frozen=True)
class Facts:
    """What a reply tells about the work on an issue; urls are '' where there is none."""

    state: SpecState
    ending: bool = False
    status_url: str = ""
    plan_url: str = ""
    plan_hash: str = ""
    """Of the plan as people see it."""
    pull_number: int | None = None
    pausing: bool = False
    waits_for: str = ""
    """What keeps the next sandbox from starting, as the status comment says it."""
    label_gone: bool = False
    """It was cancelled by removing its label, so that only the label starts anew."""


LABEL_GONE = "Its label was removed, which is what stopped it. Set the label again to start anew."

COMMANDS = (
    ("`/agent status`", "how far the work is"),
    ("`/agent approve`", "start building the plan that was shown; with its hash, exactly that plan"),
    ("`/agent pause`", "let the work rest: the agent hands over what it has; `/agent resume` lets it go on"),
    ("`/agent base BRANCH`", "the branch to start from, before ours is made"),
    ("`/agent stop`", "end the work, with 30 s to wrap up; `/agent stop now` kills what runs at once"),
    (
        "`/agent retry`",
        "take failed or stopped work up again; with the name of a phase, from there on; with a task's, that one again as well",
    ),
    ("`/agent help`", "this list"),
)

_STATES = {
    SpecState.QUEUED: "It waits for its turn.",
    SpecState.PLANNING: "The plan is being made.",
    SpecState.AWAITING_APPROVAL: "The plan waits for approval: `/agent approve`.",
    SpecState.IMPLEMENTING: "It is being built.",
    SpecState.IN_REVIEW: "It is built and in review.",
    SpecState.PAUSED: "It is paused. `/agent resume` lets it go on.",
    SpecState.COMPLETED: "It is completed.",
    SpecState.FAILED: "It failed. `/agent retry` takes it up again.",
    SpecState.CANCELLED: "It was cancelled. `/agent retry` takes it up again.",
}


def render_help() -> str:
    lines = "\n".join(f"- {command}: {meaning}" for command, meaning in COMMANDS)
    return f"Commands stand at the start of a line, outside quotes and code:\n\n{lines}\n\nAny other comment is a message to the agent."


def render_unknown(line: str) -> str:
    shown = escape_markdown(sanitize_line(line, 80))
    return f"I don't know what {shown} means. {render_help()}"


def render_status_reply(facts: Facts) -> str:
    by_label = facts.label_gone and facts.state is SpecState.CANCELLED
    text = f"It was cancelled. {LABEL_GONE}" if by_label else _STATES[facts.state]
    if facts.waits_for:
        text += f" It waits for {facts.waits_for}."
    if facts.ending:
        text = "It is being stopped."
    elif facts.pausing and facts.state is not SpecState.PAUSED:
        text = "It is being paused."
    links = [f"[status]({facts.status_url})"] if facts.status_url else []
    links += [f"[plan]({facts.plan_url})"] if facts.plan_url else []
    links += [f"#{facts.pull_number}"] if facts.pull_number else []
    return f"{text} See {', '.join(links)}." if links else text


def render_ended(state: SpecState, *, label_gone: bool, label: str) -> str:
    """To words on work that is completed or cancelled; `label`: the one that starts work."""
    if state is not SpecState.CANCELLED:
        return ENDED_WELL.format(label=label)
    return ENDED_BY_LABEL if label_gone else ENDED


def render_approval(approval: Approval, facts: Facts) -> str:
    """Why it was not taken; '' where a reaction says enough."""
    plan = f"[the plan]({facts.plan_url})" if facts.plan_url else "the plan"
    if approval is Approval.STALE:
        return (
            f"Not approved: that is not {plan} as it stands now. Please read the newest one and approve that."
        )
    if approval is Approval.SEVERAL:
        return (
            f"Not approved: more than one plan has been shown, and a label can't say which. Write "
            f"`/agent approve {facts.plan_hash[:12]}` to approve {plan} as it stands now."
        )
    if approval is Approval.NOT_AWAITED:
        return f"Nothing waits for approval. {render_status_reply(facts)}"
    return ""


def render_retry_refused(refused: RetryRefused) -> str:
    if refused.reason is RetryRefusal.LABEL_GONE:
        return LABEL_GONE
    if refused.reason is RetryRefusal.UNKNOWN_TASK:
        named = f" You can name {_listed(refused.names)}." if refused.names else ""
        return f"There is no such task.{named}"
    if refused.reason is RetryRefusal.UNKNOWN_PHASE and not refused.phases:
        return "There is no such phase: this work is done without planning. `/agent retry` takes it up again."
    if refused.reason in {RetryRefusal.UNKNOWN_PHASE, RetryRefusal.LATER_PHASE}:
        why = (
            "There is no such phase."
            if refused.reason is RetryRefusal.UNKNOWN_PHASE
            else "That phase is later than the first unfinished one."
        )
        return f"{why} You can name {_listed(refused.phases)}."
    if refused.reason is RetryRefusal.DONE:
        return "Nothing to try again: this work has ended well. For more work, label an issue."
    if refused.state in {SpecState.AWAITING_APPROVAL, SpecState.IN_REVIEW, SpecState.PAUSED}:
        return f"Nothing has failed, so there is nothing to try again. {_STATES[refused.state]}"
    return "Nothing to try again: it is at work now."


def _listed(names: Sequence[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


NOTHING_TO_STOP = "Nothing to stop. {status}"
STOPPED_HERE = (
    "Not tried again: the same comment stops the work. `/agent retry` in another comment takes it up again."
)
NOTHING_TO_PAUSE = "Nothing to pause. {status}"
NOT_PAUSED = "Nothing to resume: it is not paused. {status}"
SAID_ENOUGH = (
    "{login} has said {count} things to the agents of this repository within an hour, which is as much as one person may "
    "(😕 marks what was not taken). Say it again later, best in one comment."
)
ACCESS_LOST = "{login} had write access when reviewing this, and has none any more, so the agent does not get the review."
ALTERED_REVIEW = (
    "Somebody other than {login} changed the text of {login}'s review before the agent got it, so the agent does not get "
    "that text. Say in a comment what is to be done."
)
PAUSED_HEARD = "The work is paused, so the agent hears this when it goes on: `/agent resume`."
HELD = (
    "The work ends here, so nobody hears this message yet. `/agent retry` takes the work up again and hands the message "
    "to the agent."
)
TOO_MANY = "Only the first {most} commands of a comment are heeded; {left} more were left out. Write them in another comment."
NO_HASH = "Not approved: `{word}` is not a plan's hash. That is 6 to 64 digits and letters from a to f, as the plan comment shows it."
BASE_TAKEN = "The branch will be made from `{branch}`."
BASE_LATE = "The branch is made already, from `{base}`, so its base stays."
BASE_ENDED = "There is no work whose base could be set. {status}"
BASE_ILLEGAL = "{branch} is not a name that a branch can have."
BASE_MISSING = "There is no branch {branch} in this repository."
BASE_AFTER_PLAN = " The plan was made on `{base}`; `/agent stop` and a new label make another one."
NO_WORK = "There is no work of mine here. An issue is worked on once somebody with write access sets the label `{label}` on it."
ENDED_WELL = (
    "This work has ended, so nobody hears this message. For more work, open an issue and label it `{label}`."
)
ENDED = "This work was cancelled, so nobody hears this message yet. `/agent retry` takes the work up again and hands it to the agent."
ENDED_BY_LABEL = (
    "This work was cancelled by removing its label, so nobody hears this message. Set the label again to start anew, then "
    "say it again."
)
CORRECTION = "This replaces an earlier message of mine, which was changed since:\n\n{text}"
INTERRUPT = "Stop now."
