"""The status comment and the check run. Pure: the same view gives the same text, so nothing is edited in vain."""

from __future__ import annotations

from dataclasses import replace

from app.domain.guardian_texts import reminder_lines
from app.domain.markers import status_marker
from app.domain.notices import LABEL_REMOVED, NO_CHECK, NO_STATUS, PAUSED_HINT
from app.domain.ports import CheckOutput
from app.domain.render_messages import message_lines
from app.domain.render_planning import approval_lines, plan_and_tasks, planning_facts, planning_headline
from app.domain.sanitize import (
    MAX_BODY,
    cut_text,
    escape_markdown,
    neutralize_agent_text,
    quote_block,
    sanitize_line,
)
from app.domain.states import SPEC_LIVE
from app.domain.view import Outcome, SpecView

MAX_CHECK_TEXT = 65_535
RETRY_ACTION = ("Retry", "Run the failed work again", "retry")

PAUSED = "⏸️ Paused"
UNDER_WAY = "🛠️ The work is under way"
_LIVE = {one.value for one in SPEC_LIVE}
_HEADLINES = {
    Outcome.DONE: "✅ Done: ready for review",
    Outcome.NO_CHANGES: "⚪ Nothing to change",
    Outcome.PUSH_REFUSED: "⛔ Not pushed",
    Outcome.FAILED: "❌ Failed",
    Outcome.CANCELLED: "🛑 Cancelled",
}
_CONCLUSIONS = {
    Outcome.DONE: "success",
    Outcome.NO_CHANGES: "neutral",
    Outcome.PUSH_REFUSED: "failure",
    Outcome.FAILED: "failure",
    Outcome.CANCELLED: "cancelled",
}


def conclusion_of(outcome: Outcome, *, timed_out: bool) -> str:
    if outcome is Outcome.FAILED and timed_out:
        return "timed_out"
    return _CONCLUSIONS[outcome]


def headline(view: SpecView) -> str:
    if view.state == "paused" and not view.cancel_asked:
        return PAUSED
    if view.pause_asked and not view.cancel_asked and view.state in _LIVE:
        return "⏸️ Pausing: the agent hands over what it has"
    if view.outcome is not None and view.state not in {"queued", "implementing"}:
        if view.outcome is Outcome.DONE and view.state == "completed":
            return "🎉 Merged"
        return _HEADLINES[view.outcome]
    if view.cancel_asked:
        return "🛑 Stopping: the agent wraps up"
    planned = _waiting(view) or planning_headline(view)
    if planned is not None:
        return planned
    if view.branch is None:
        return "🌿 The plan stands: making its branch" if view.plan_hash else "👀 Accepted: getting ready"
    if view.agent is None or view.agent.activity == "starting":
        return "🚚 Starting the agent"
    return "🛠️ The agent is at work"


def _waiting(view: SpecView) -> str | None:
    """While nothing runs and the next sandbox has to wait."""
    at_rest = view.agent is None or view.agent.activity in {"ended", "starting"}
    return "⏳ Waiting its turn" if view.waits_for and at_rest else None


def render_status(view: SpecView) -> str:
    """The one status comment of a spec, at most 65,536 characters."""
    head = [
        status_marker(view.spec_id),
        f"### {headline(view)}",
        "",
        *_facts(view),
        *approval_lines(view),
        *_paused(view),
        *reminder_lines(view.reminders),
        *message_lines(view.messages, view.state, label_gone=_label_gone(view)),
        "",
    ]
    told = ["", neutralize_agent_text(view.outcome_detail, 12_000)] if view.outcome_detail else []
    told += [_quoted(note) for note in _notes(view)]
    end = ["", *_endorsed(view), "", f"<sub>{_next_hint(view)} · {view.spec_id}</sub>"]
    if view.is_planned:
        others = "\n".join([*head, *told, *end])
        parts = [*head, *plan_and_tasks(view, others), *told, *end]
    else:
        parts = [*head, *_progress(view), *told, *_summaries(view), *end]
    return cut_text("\n".join(parts), MAX_BODY)


def _paused(view: SpecView) -> list[str]:
    if view.state != "paused" or view.cancel_asked:
        return []
    by = f" by {escape_markdown(sanitize_line(view.paused_by, 100))}" if view.paused_by else ""
    return ["", f"> **The work is paused{by}.** {PAUSED_HINT}"]


def _summaries(view: SpecView) -> list[str]:
    lines: list[str] = []
    for task in view.tasks:
        if task.summary:
            text = neutralize_agent_text(task.summary, 12_000)
            lines += ["", "<details><summary>What the agent says</summary>", "", text, "", "</details>"]
    return lines


def _notes(view: SpecView) -> list[str]:
    if not view.check_untold:
        return list(view.notes)
    return [*view.notes, NO_CHECK.format(reason=escape_markdown(sanitize_line(view.check_untold, 300)))]


def _quoted(note: str) -> str:
    """A note may hold what a sandbox said, over several lines."""
    lines = neutralize_agent_text(note, 4_000).splitlines()
    return "\n" + "\n".join(f"> {line}".rstrip() for line in lines)


def status_missing(view: SpecView) -> str:
    """Said where people look instead, when the status comment can't be written; else empty."""
    if not view.status_untold:
        return ""
    return NO_STATUS.format(reason=escape_markdown(sanitize_line(view.status_untold, 300)))


def _facts(view: SpecView) -> list[str]:
    rows = [f"| Asked by | {escape_markdown(view.labeler_login)} with `{view.trigger_label}` |"]
    if view.branch:
        # Where nothing was to change, the branch is deleted.
        gone = view.outcome is Outcome.NO_CHANGES
        name = f"`{view.branch}`" if gone else f"[`{view.branch}`]({view.branch_url})"
        rows.append(f"| Branch | {name} from `{view.base_branch}` |")
    if view.pull_number:
        rows.append(f"| Pull request | #{view.pull_number} |")
    if view.waits_for:
        rows.append(f"| Waits for | {view.waits_for} |")
    rows += planning_facts(view)
    if view.agent is not None:
        rows.append(f"| Agent | {_agent_line(view)} |")
    return ["| | |", "|---|---|", *rows]


def _agent_line(view: SpecView) -> str:
    agent = view.agent
    if agent is None:
        return ""
    has_ended = view.state in {"failed", "cancelled", "completed"}
    activity = "ended" if has_ended else agent.activity
    words = [activity]
    if agent.tools:
        words.append(f"{agent.tools} tool call{'s' if agent.tools != 1 else ''}")
    if agent.last_tool and activity == "working":
        words.append(f"now `{sanitize_line(agent.last_tool, 60).replace('`', '')}`")
    if view.cost_usd >= 0.005:
        words.append(f"${view.cost_usd:.2f}")
    if agent.attempt > 1:
        words.append(f"attempt {agent.attempt}")
    if agent.model_key:
        words.append(f"model key {escape_markdown(agent.model_key)}")
    return ", ".join(words)


def _progress(view: SpecView) -> list[str]:
    """A short checklist of the way; what did not happen stays unticked."""
    ended = view.outcome is not None and view.state != "implementing"
    worked = any(task.state == "completed" for task in view.tasks)
    steps = [
        ("Accepted", True),
        ("Branch and draft pull request", view.pull_number is not None),
        ("Agent has finished its work", worked),
        (
            "Result checked and pushed",
            view.outcome is Outcome.DONE or (worked and view.head_sha != view.start_sha),
        ),
        ("Ready for review", view.outcome is Outcome.DONE and ended),
    ]
    return [f"- [{'x' if done else ' '}] {text}" for text, done in steps]


def _endorsed(view: SpecView) -> list[str]:
    """What is worked on: the issue as it stood when the label was set, whatever is edited later."""
    title = sanitize_line(view.title, 250)
    text = f"{title}\n\n{view.body}".strip()
    return [
        "<details><summary>What is worked on: the issue as it stood when it was labeled</summary>",
        "",
        quote_block(text, 20_000),
        "",
        "</details>",
    ]


def _label_gone(view: SpecView) -> bool:
    return view.outcome is Outcome.CANCELLED and view.outcome_detail.startswith(LABEL_REMOVED)


def _next_hint(view: SpecView) -> str:
    if _label_gone(view):
        return "To start anew, set the label again"
    if view.outcome in {Outcome.FAILED, Outcome.PUSH_REFUSED, Outcome.CANCELLED}:
        button = " press Retry on the check run," if view.pull_number else ""
        return f"To try again, comment `/agent retry`,{button} or set the label again"
    if view.state == "paused":
        return "To go on, comment `/agent resume`"
    if view.outcome is Outcome.NO_CHANGES:
        return "The issue stays open; set the label again after saying more"
    if view.approval_awaited:
        return "Remove the label or close the issue to drop the plan"
    if view.state == "completed":
        return "For more, open another issue, or set the label again"
    if view.outcome is Outcome.DONE:
        return "Review the pull request; merging it completes this"
    return "Remove the label or close the issue to stop"


def render_check(view: SpecView, details_url: str) -> CheckOutput:
    """The check run on the newest head."""
    # Of work that was ready before it was paused the head stays what it is.
    is_paused = view.state == "paused" and view.outcome is None
    if view.state == "paused" and not is_paused:
        view = replace(view, state="in_review", pause_asked=False)
    done = view.outcome is not None and view.state not in {"queued", "implementing"}
    outcome = view.outcome if done else None
    summary = [f"Issue #{view.issue_number}, branch `{view.branch}`.", ""]
    if is_paused:
        summary.append(f"The work is paused. {PAUSED_HINT}")
    elif outcome is None:
        where = status_missing(view) or "The status comment on the issue shows how it goes."
        summary.append(f"Nothing is to be done here yet. {where}")
    if view.outcome_detail and outcome is not None:
        summary.append(neutralize_agent_text(view.outcome_detail, 20_000))
    if view.status_untold and outcome is not None:
        summary += [_quoted(note) for note in (*view.notes, status_missing(view))]
    conclusion = None if outcome is None else conclusion_of(outcome, timed_out=view.timed_out)
    return CheckOutput(
        # Under way it is written once for each head: only what is true until the end.
        title=headline(view) if is_paused or conclusion else UNDER_WAY,
        summary=cut_text("\n".join(summary), MAX_CHECK_TEXT),
        details_url=details_url,
        conclusion=conclusion,
        actions=() if conclusion in {None, "success"} else (RETRY_ACTION,),
    )


def render_superseded(head_sha: str, details_url: str) -> CheckOutput:
    return CheckOutput(
        title="Superseded",
        summary=f"A newer commit was pushed after `{head_sha[:12]}`; its own check run tells how it went.",
        details_url=details_url,
        conclusion="neutral",
    )
