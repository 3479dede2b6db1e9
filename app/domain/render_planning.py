"""What the status comment says of a spec that is planned: its phases, its tasks, and what it waits for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from app.domain.plan_sections import counted, task_head
from app.domain.plan_text import fit, fold, inline
from app.domain.render_plan import approval_hint
from app.domain.sanitize import MAX_BODY, escape_markdown, neutralize_agent_text, sanitize_line, size
from app.domain.view import PhaseView, SpecView, TaskView

_UNDER_WAY = {"assigned", "running"}
_MAX_FINDINGS = 10
_MAX_SUMMARY = 4_000


def planning_headline(view: SpecView) -> str | None:
    """While it is planned, waits for approval or runs its tasks; None when the words of every flow fit."""
    if not view.is_planned or view.cancel_asked:
        return None
    if view.state == "planning":
        phase = _current_phase(view)
        if phase is not None:
            return f"🧭 Planning: {phase.name}"
        return "🧭 Planning: going over the plan" if view.phases else "🧭 Planning: getting ready"
    if view.state == "awaiting_approval":
        return f"⏸️ Waiting for approval of plan `{view.plan_hash}`"
    if view.state == "implementing" and view.branch is not None:
        return _task_headline(view.tasks)
    return None


def _current_phase(view: SpecView) -> PhaseView | None:
    """The first one that is under way, or failed, or next; None when all are done or none is known."""
    return next((one for one in view.phases if one.state != "completed"), None)


def _task_headline(tasks: Sequence[TaskView]) -> str | None:
    at_work = [at for at, task in enumerate(_in_order(tasks), 1) if task.state in _UNDER_WAY]
    if not at_work or len(tasks) < 2:
        return None
    if len(at_work) == 1:
        return f"🛠️ The agent is at work: task {at_work[0]} of {len(tasks)}"
    places = ", ".join(map(str, at_work[:-1]))
    return f"🛠️ Agents are at work: tasks {places} and {at_work[-1]} of {len(tasks)}"


def _in_order(tasks: Sequence[TaskView]) -> list[TaskView]:
    return sorted(tasks, key=lambda task: task.position)


def planning_facts(view: SpecView) -> list[str]:
    """Rows of the table of facts."""
    rows = []
    if view.questions_url:
        rows.append(f"| Questions | [asked here]({view.questions_url}) |")
    if view.plan_hash:
        name = f"[`{view.plan_hash}`]({view.plan_url})" if view.plan_url else f"`{view.plan_hash}`"
        by = escape_markdown(sanitize_line(view.approved_by, 100))
        rows.append(f"| Plan | {name}{f', approved by {by}' if by else ''} |")
    return rows


def approval_lines(view: SpecView) -> list[str]:
    """What is awaited, and how people answer."""
    if not view.approval_awaited:
        return []
    plan = f"[The plan]({view.plan_url})" if view.plan_url else "The plan"
    hint = approval_hint(view.plan_hash, view.approved_label)
    return ["", f"> **{plan} waits for someone with write access.** {hint}"]


def phase_lines(view: SpecView) -> list[str]:
    """The checklist of phases."""
    if not view.phases:
        return []
    lines = ["**Plan**", ""]
    failed = next((phase for phase in view.phases if phase.state == "failed"), None)
    for phase in view.phases:
        lines.append(_phase_line(phase))
        if phase is failed:
            lines += _findings(phase)
    return lines


def _findings(phase: PhaseView) -> list[str]:
    lines = [f"  - {inline(text, 300)}" for text in phase.findings[:_MAX_FINDINGS]]
    left = len(phase.findings) - len(lines)
    return [*lines, *([f"  - and {counted(left, 'more finding')}"] if left > 0 else [])]


def _phase_line(phase: PhaseView) -> str:
    is_done = phase.state == "completed"
    has_ended = is_done or phase.state == "failed"
    words = [duration(took_s)] if has_ended and (took_s := phase.seconds or 0) >= 0.5 else []
    if phase.attempts > 1:
        words.append(f"{phase.attempts} attempts" if has_ended else f"attempt {phase.attempts}")
    if phase.score is not None and is_done:
        words.append(f"quality {phase.score:.2f}")
    state = {"running": " ⏳", "failed": " ❌"}.get(phase.state, "")
    told = f" ({', '.join(words)})" if words else ""
    return f"- [{'x' if is_done else ' '}] {inline(phase.name, 40)}{told}{state}"


def duration(seconds: float) -> str:
    """Of a finished phase: `12 s`, `3 min 5 s`, `1 h 2 min`."""
    total = max(round(seconds), 0)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60} s"
    return f"{total // 3600} h {total % 3600 // 60} min"


def _task_item(task: TaskView) -> str:
    is_done = task.state == "completed"
    # What it waits for is of interest only until it begins.
    after = task.depends_on if task.state == "pending" else ()
    state = {"assigned": " ⏳", "running": " ⏳", "failed": " ❌ failed", "cancelled": " 🛑 cancelled"}.get(
        task.state, ""
    )
    return task_head(task.key, task.title, after, done=is_done) + state


def task_list(tasks: Sequence[TaskView], room: int) -> list[str]:
    """A checklist of as many of the tasks as fit into `room` characters, in their order, with the state of those that
    are neither done nor still to come.
    """
    items = fit([[partial(_task_item, task) for task in _in_order(tasks)]], [100], room - 50)[0]
    left = len(tasks) - len(items)
    return [*items, *([f"- and {counted(left, 'more task')}"] if left else [])]


def plan_and_tasks(view: SpecView, others: str) -> list[str]:
    """Phases, tasks and what the agents said of each, in the room that `others` leaves in the comment."""
    lines = phase_lines(view)
    room = MAX_BODY - size(others) - size("\n".join(lines)) - 500
    if view.tasks:
        tasks = ["", "**Tasks**", "", *task_list(view.tasks, room)]
        room -= size("\n".join(tasks))
        lines += tasks
    said = fit([[partial(_said, task) for task in _in_order(view.tasks) if task.summary]], [100], room)[0]
    return lines + (["", *said] if said else [])


def _said(task: TaskView) -> str:
    key = "".join(char for char in task.key if char.isalnum() or char in ".-")[:40]
    text = neutralize_agent_text(task.summary, _MAX_SUMMARY)
    return "\n".join(fold(f"What the agent says on {key}", [text]))
