"""The plan comment, the questions comment, and what changed between two plans. Pure.

A plan too long for a comment loses whole items from the end of its sections, task titles last, and says where the
whole plan is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from app.domain.markers import plan_marker, questions_marker
from app.domain.plan_sections import (
    MAX_LINE,
    bullets,
    counted,
    design_items,
    keys_of,
    requirement_items,
    task_details,
    task_heads,
)
from app.domain.plan_text import Shelf, fit, fold, inline
from app.domain.sanitize import MAX_BODY, sanitize_line, size
from app.domain.view import PlanView, QuestionView

_SHARES = {
    "changes": 8,
    "notes": 4,
    "requirement": 26,
    "task": 32,
    "design": 22,
    "assumption": 5,
    "out": 3,
}
"""Of the room that the task titles leave, in percent, in the order in which they get what others leave over."""
_NOTICE_ROOM = 200
"""For the line that says what a section lacks."""


def render_plan(plan: PlanView) -> str:
    """The plan comment, at most 65,536 characters."""
    shelves = {
        "changes": bullets(plan.changes),
        "notes": _notes(plan),
        "requirement": requirement_items(plan),
        "task": task_details(plan.tasks),
        "design": design_items(plan.design),
        "assumption": bullets(plan.assumptions),
        "out": bullets(plan.out_of_scope),
    }
    frame = _assemble(plan, {name: [] for name in shelves}, [], shelves)
    room = MAX_BODY - size(frame) - _NOTICE_ROOM * (len(shelves) + 1)
    heads = fit([task_heads(plan)], [100], room)[0]
    room -= sum(size(head) + 1 for head in heads)
    shelves["task"] = task_details(plan.tasks[: len(heads)])
    kept = fit(list(shelves.values()), list(_SHARES.values()), room)
    return _assemble(plan, dict(zip(shelves, kept, strict=True)), heads, shelves)


def _assemble(
    plan: PlanView,
    kept: Mapping[str, Sequence[str]],
    heads: Sequence[str],
    shelves: Mapping[str, Shelf],
) -> str:
    def section(name: str, title: str, word: str) -> list[str]:
        if not shelves[name]:
            return []
        left = len(shelves[name]) - len(kept[name])
        return fold(title, [*kept[name], *_left_out(plan, left, word)])

    lines = [plan_marker(plan.spec_id), f"### 🧭 Plan for issue {plan.issue_number}", "", _summary(plan), ""]
    lines += [*_how_to_answer(plan), ""]
    if shelves["changes"]:
        left = len(shelves["changes"]) - len(kept["changes"])
        lines += [
            "**Changed since the plan before**",
            "",
            *kept["changes"],
            *_left_out(plan, left, "change"),
            "",
        ]
    if kept["notes"]:
        lines += ["**Worth knowing**", "", *kept["notes"], ""]
    lines += section("requirement", f"Requirements ({len(plan.requirements)})", "requirement")
    lines += section("design", "Design", "item")
    lines += fold(f"Tasks in order ({len(plan.tasks)})", _task_lines(plan, heads, kept["task"]), is_open=True)
    lines += section("assumption", f"Assumptions ({len(plan.assumptions)})", "assumption")
    lines += section("out", f"Out of scope ({len(plan.out_of_scope)})", "item")
    return "\n".join([*lines, _footer(plan)])


def _task_lines(plan: PlanView, heads: Sequence[str], details: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for at, head in enumerate(heads):
        lines += [head, details[at]] if at < len(details) else [head]
    untold = _left_out(plan, len(heads) - len(details), "task description")
    return lines + (_left_out(plan, len(plan.tasks) - len(heads), "task") or untold)


def _left_out(plan: PlanView, count: int, word: str) -> list[str]:
    if count <= 0:
        return []
    is_are = "is" if count == 1 else "are"
    more = f"{counted(count, f'more {word}')} {is_are} left out here"
    return ["", f"*{more}; the whole plan: `issuewright specs show {plan.spec_id}`*"]


def _summary(plan: PlanView) -> str:
    hours = sum(task.estimate_hours for task in plan.tasks)
    words = [counted(len(plan.tasks), "task"), counted(len(plan.requirements), "requirement")]
    if hours > 0:
        words.insert(1, f"about {hours:.3g} h of a person's work")
    return f"{', '.join(words)}. Plan `{plan.short_hash}`, revision {plan.revision}."


def _how_to_answer(plan: PlanView) -> list[str]:
    if plan.approval_awaited:
        return [
            f"> **The work begins once this plan is approved.** {approval_hint(plan.short_hash, plan.approved_label)}",
        ]
    if plan.approved_by:
        return [f"> Approved by {inline(plan.approved_by, 100)}."]
    return ["> No approval is needed here: the work goes on with this plan."]


def approval_hint(short_hash: str, label: str) -> str:
    """How people with write access answer a plan that waits."""
    return (
        f"To approve, comment `/agent approve {short_hash}` or set the label `{label}`. "
        "To change the plan, say in a comment what should be different."
    )


def _notes(plan: PlanView) -> Shelf:
    unserved = [key for key, tasks in plan.coverage if not tasks]
    warning = [lambda: f"- ⚠️ No task serves {keys_of(unserved)}."] if unserved else []
    return [*warning, *bullets(plan.conflicts)]


def _footer(plan: PlanView) -> str:
    scores = ", ".join(f"{inline(phase, 20)} {score:.2f}" for phase, score in plan.scores[:10])
    quality = f"Quality from 0 to 1: {scores} · " if scores else ""
    return f"<sub>{quality}Plan hash `{plan.full_hash[:64]}` · {plan.spec_id}</sub>"


def render_questions(spec_id: str, questions: Sequence[QuestionView], assumptions: Sequence[str] = ()) -> str:
    """The one comment that asks people what the agent can't decide; `assumptions` hold if nobody answers."""
    shelves = ([partial(_question, one) for one in questions], bullets(assumptions))
    asked, assumed = fit(shelves, [80, 20], MAX_BODY - 1_500)
    head = "❓ A question about the plan" if len(questions) == 1 else "❓ Questions about the plan"
    lines = [questions_marker(spec_id), f"### {head}", "", *asked, ""]
    lines += [
        "Someone with write access answers in a comment here, in plain words; the id says which one is meant."
    ]
    if assumed:
        lines += ["", *fold("What is assumed otherwise", assumed)]
    left = len(questions) + len(assumptions) - len(asked) - len(assumed)
    if left:
        lines += ["", f"*{left} more: `issuewright specs show {spec_id}`*"]
    return "\n".join([*lines, "", f"<sub>{spec_id}</sub>"])


def _question(one: QuestionView) -> str:
    hint = "" if one.blocking else " *(the agent can go on without)*"
    return f"- **{inline(one.key, 40)}** {inline(one.question, MAX_LINE)}{hint}"


# ------------------------------------------------------------ what changed

_TASK_WORDS = {
    "title": "title",
    "kind": "kind",
    "description": "description",
    "depends_on": "what it waits for",
    "requirements": "requirements",
    "criteria": "acceptance criteria",
    "files": "files",
    "estimate_hours": "estimate",
}
_DESIGN_WORDS = {
    "approach": "approach",
    "components": "components",
    "data_changes": "data",
    "interface_changes": "interfaces",
    "error_handling": "error handling",
    "security": "security",
    "test_strategy": "tests",
    "alternatives": "alternatives",
}
_Item = Mapping[str, Any]


def diff_plans(old: Mapping[str, _Item], new: Mapping[str, _Item]) -> tuple[str, ...]:
    """What differs between two plans, given as the outputs of their phases by name; in sentences, unescaped, each one
    line. Empty when people would see the same plan.
    """
    before, after = _listed(old, "requirements"), _listed(new, "requirements")
    words = {"statement": "statement", "criteria": "acceptance criteria"}
    sentences = _diff_items("Requirement", before, after, words, "statement")
    before, after = _listed(old, "tasks"), _listed(new, "tasks")
    sentences += _diff_items("Task", before, after, _TASK_WORDS, "title")
    if set(before) == set(after) and list(before) != list(after):
        sentences.append("The tasks stand in another order.")
    changed = _differing(old.get("design", {}), new.get("design", {}), _DESIGN_WORDS)
    if changed:
        sentences.append(f"The design changed: {', '.join(changed)}.")
    for field, word in (("assumptions", "assumptions"), ("out_of_scope", "out of scope")):
        sentences += _diff_texts(word, _texts(old, field), _texts(new, field))
    return tuple(sentences)


def _listed(outputs: Mapping[str, _Item], phase: str) -> dict[str, _Item]:
    return {str(item["id"]): item for item in outputs.get(phase, {}).get(phase, ())}


def _texts(outputs: Mapping[str, _Item], field: str) -> list[str]:
    return list(outputs.get("requirements", {}).get(field, ()))


def _diff_items(
    noun: str, before: Mapping[str, _Item], after: Mapping[str, _Item], words: Mapping[str, str], title: str
) -> list[str]:
    def name(item: _Item) -> str:
        return f"{noun} {sanitize_line(str(item['id']), 40)}"

    added = [f"{name(after[key])} is new: {_short(after[key][title])}" for key in after if key not in before]
    gone = [
        f"{name(before[key])} is gone: {_short(before[key][title])}" for key in before if key not in after
    ]
    changed = [
        f"{name(after[key])} changed ({', '.join(fields)}): {_short(after[key][title])}"
        for key in after
        if key in before and (fields := _differing(before[key], after[key], words))
    ]
    return added + gone + changed


def _differing(before: _Item, after: _Item, words: Mapping[str, str]) -> list[str]:
    # A field left out and an empty one say the same.
    return [
        word for field, word in words.items() if (before.get(field) or None) != (after.get(field) or None)
    ]


def _diff_texts(word: str, before: Sequence[str], after: Sequence[str]) -> list[str]:
    added = [f"New under {word}: {_short(text)}" for text in after if text not in before]
    return added + [f"No longer under {word}: {_short(text)}" for text in before if text not in after]


def _short(text: str) -> str:
    return sanitize_line(str(text)[:800], 200)
