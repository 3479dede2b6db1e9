"""The parts of a plan as Markdown items, each whole in itself: what does not fit is left out item by item. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from app.domain.plan_text import Shelf, code, inline, prose
from app.domain.view import ComponentView, DesignView, PlanTaskView, PlanView, RequirementView

MAX_TITLE = 150
MAX_LINE = 1_000
MAX_PROSE = 4_000
_LISTED = 10
"""Files of one task or component that are listed; ids twice as many."""


def keys_of(keys: Sequence[str], limit: int = 2 * _LISTED) -> str:
    """Ids in a row."""
    more = f" and {len(keys) - limit} more" if len(keys) > limit else ""
    return ", ".join(inline(key, 40) for key in keys[:limit]) + more


def counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def requirement_items(plan: PlanView) -> Shelf:
    coverage = dict(plan.coverage)
    return [partial(_requirement, one, coverage.get(one.key, ())) for one in plan.requirements]


def _requirement(one: RequirementView, tasks: Sequence[str]) -> str:
    served = f" → {keys_of(tasks, 8)}" if tasks else ""
    lines = [f"- **{inline(one.key, 40)}** {inline(one.statement, MAX_LINE)}{served}"]
    lines += [f"  - {inline(key, 40)}: {inline(text, MAX_LINE)}" for key, text in one.criteria]
    return "\n".join(lines)


def task_heads(plan: PlanView) -> Shelf:
    """One checklist line per task: what is shown of it at the very least."""
    return [
        partial(task_head, one.key, one.title, one.depends_on, done=one.key in plan.done)
        for one in plan.tasks
    ]


def task_head(key: str, title: str, depends_on: Sequence[str], *, done: bool = False) -> str:
    after = f" (after {keys_of(depends_on, 5)})" if depends_on else ""
    return f"- [{'x' if done else ' '}] **{inline(key, 40)}** {inline(title, MAX_TITLE)}{after}"


def task_details(tasks: Iterable[PlanTaskView]) -> Shelf:
    """What stands below each task's line, as a part of its list item."""
    return [partial(_task_detail, one) for one in tasks]


def _task_detail(one: PlanTaskView) -> str:
    words = [inline(one.kind, 40)] if one.kind else []
    if one.estimate_hours > 0:
        words.append(f"about {one.estimate_hours:.3g} h")
    if one.requirements:
        words.append(f"for {keys_of(one.requirements)}")
    blocks = [f"  *{' · '.join(words)}*"] if words else []
    if one.description.strip():
        blocks.append(prose(one.description, MAX_PROSE, "  "))
    if one.files:
        blocks.append(f"  Files: {_files(one.files)}")
    return "\n\n".join(blocks) + "\n"


def _files(files: Sequence[tuple[str, str]]) -> str:
    shown = ", ".join(f"{code(path)} ({inline(change, 20)})" for path, change in files[:_LISTED])
    return shown + (f" and {len(files) - _LISTED} more" if len(files) > _LISTED else "")


def bullets(texts: Iterable[str]) -> Shelf:
    return [partial(_bullet, text) for text in texts]


def _bullet(text: str) -> str:
    return f"- {inline(text, MAX_LINE)}"


def design_items(design: DesignView) -> Shelf:
    """Approach, components, changes, and the rest, a paragraph with its title or a bullet each."""
    items: list[Callable[[], str]] = []
    if design.approach.strip():
        items.append(partial(prose, design.approach, MAX_PROSE))
    items += _titled("Components", [partial(_component, one) for one in design.components])
    items += _titled("Data", bullets(design.data_changes))
    items += _titled("Interfaces", bullets(design.interface_changes))
    for title, text in (
        ("Error handling", design.error_handling),
        ("Security", design.security),
        ("Tests", design.test_strategy),
    ):
        if text.strip():
            items += _titled(title, [partial(prose, text, MAX_PROSE)])
    refused = [partial(_bullet, f"{option} – refused: {reason}") for option, reason in design.alternatives]
    return items + _titled("Weighed and refused", refused)


def _component(one: ComponentView) -> str:
    served = f" ({keys_of(one.requirements, 8)})" if one.requirements else ""
    files = f"\n  {_files(one.files)}" if one.files else ""
    return f"- **{inline(one.name, 200)}**: {inline(one.purpose, MAX_LINE)}{served}{files}"


def _titled(title: str, items: Shelf) -> list[Callable[[], str]]:
    """A title goes with its first item, so that it never stands alone."""
    return [lambda: f"\n**{title}**\n\n{items[0]()}", *items[1:]] if items else []
