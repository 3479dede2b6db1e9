"""Nothing that a worker or the web process does outside itself is without a point before and a point after it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PORTS = {"github", "sandboxes", "provider"}

EXCUSED = {
    "worker/effects.py:perform": "its claim and its note of the outcome stand just outside the points of the effect",
    "worker/effects.py:_do": "called between the two points of its kind",
    "worker/effects.py:_end_sub_issue": "called between the two points of its kind",
    "worker/effects.py:_put_off": "after a failure; until it is noted, the claim lapses",
    "worker/review_batch.py:perform_review_effect": "called between the two points of its kind",
    "worker/review_batch.py:_split": "between the two points of its effect; done again, it finds nothing to split",
    "worker/flow/left.py:is_handed_in": "since when it waits; until that is noted, the next look notes it",
    "worker/flow/left.py:_hand_in": "between the two points of the operation, which is done again as a whole",
    "worker/flow/order.py:_saved_session": "repeated by whoever makes the same sandbox next",
    "worker/intake/take_in.py:take_in": "a claim, which lapses; the points of settling follow",
    "worker/intake/take_in.py:_defer": "after a failure; until it is noted, the claim lapses",
    "worker/intake/take_in.py:_give_up_or_defer": "after a failure; until it is noted, the claim lapses",
    "worker/label_names.py:label_names": "what a settings file says; read again by whoever asks next",
    "worker/main.py:_beat": "a sign of life, given again and again",
    "worker/operations.py:run_operation": "a claim, which lapses",
    "worker/operations.py:forget_done": "of no consequence: the next look finds the work done",
    "worker/operations.py:_run": "around the points of the work; until it is noted, the claim lapses",
    "worker/operations.py:_renew": "a claim, made longer again and again",
    "worker/supervise/conductor.py:look": "a lock that lapses, and notices recorded under a key; the next look finds them again",
    "worker/supervise/guardian.py:look": "a lock that lapses",
    "worker/supervise/guardian.py:_keep_quiet": "until it is noted, the next look reads the same events",
    "worker/supervise/live_look.py:look": "a lock that lapses",
    "worker/supervise/live_look.py:_record_pull": "a fact that the next look finds again",
    "worker/supervise/live_look.py:_record_moves": "a fact that the next look finds again",
    "worker/supervise/live_look.py:_record_cancel": "a fact that the next look finds again",
    "worker/supervise/live_look.py:_ask_again": "recorded under a key; the next look finds it again",
    "worker/supervise/missed_deliveries.py:_ask_for": "GitHub's own listing shows what was asked for",
    "worker/supervise/missed_deliveries.py:_is_my_turn": "a lock that lapses",
    "worker/supervise/orphans.py:remove_orphans": "looked for again and again",
    "worker/supervise/sandboxes.py:look": "a lock that lapses",
    "worker/supervise/sandboxes.py:_note": "what the next round finds again",
    "worker/supervise/sandboxes.py:_remove": "what the next round finds again",
    "worker/supervise/sandboxes.py:_delete": "looked for again and again",
    "worker/supervise/relay.py:_claim": "a lease that lapses",
    "worker/supervise/relay.py:_release": "a lease that lapses by itself, too",
    "worker/supervise/reservations.py:settle_left_reservations": "looked for again and again",
    "worker/supervise/unheard_words.py:_hand_on": "stored under the words' own name; the next look finds them known",
    "worker/supervise/retention.py:_is_my_turn": "a lock that lapses",
    "worker/supervise/takeover.py:release_dead_holders": "looked for again and again; a lease lapses by itself too",
    "worker/wind_down.py:_stop": "asked on the way out; whoever starts next takes over what still runs",
    "app/web/model_gateway/key.py:note_trouble": "until it is noted, the next call meets the same trouble",
    "app/web/operator_api.py:cancel_spec": "a person's command, which may be given again",
    "app/web/operator_api.py:execute_spec": "a person's command, which may be given again",
    "app/web/sandbox_artifacts.py:_store_pieces": "pieces of an upload that counts only once it is made current",
    "app/web/sandbox_artifacts.py:_remove": "what it would remove belongs to nothing and goes with its sandbox",
    "app/web/server.py:_beat": "a sign of life, given again and again",
}
"""Function by function, why it needs none."""


def _functions(tree: ast.AST) -> Iterator[ast.AsyncFunctionDef | ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
            yield node


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Everything in a function but what belongs to a function inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.AsyncFunctionDef | ast.FunctionDef):
            yield child
            yield from _own_nodes(child)


def _called(node: ast.AST) -> str:
    """`a.b.c` of a call `a.b.c(…)`, else an empty text."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def _is_act(node: ast.AST) -> bool:
    """A transaction that writes, or an effect on GitHub or a sandbox."""
    *owners, name = _called(node).split(".")
    if not owners:
        return name == "record_deliveries"
    owner = owners[-1].removeprefix("_")
    return (name == "write" and owner in {"db", "database"}) or (
        name.startswith("ensure_") and owner in PORTS
    )


def _order(function: ast.AST) -> str:
    """A function's acts and points from top to bottom, as `a` and `p`."""
    found = []
    for node in _own_nodes(function):
        kind = "p" if _called(node) == "crashpoint" else "a" if _is_act(node) else ""
        if kind and isinstance(node, ast.Call):
            found.append((node.lineno, node.col_offset, kind))
    return "".join(kind for *_, kind in sorted(found))


def find_bare(source: str, name: str) -> set[str]:
    """`name:function` of every function in which an act lacks the point right before or right after it."""
    bare = set()
    for function in _functions(ast.parse(source)):
        order = _order(function)
        padded = f" {order} "
        if any(kind == "a" and (padded[at] != "p" or padded[at + 2] != "p") for at, kind in enumerate(order)):
            bare.add(f"{name}:{function.name}")
    return bare


def test_every_effect_and_commit_has_its_points_or_a_reason_why_not() -> None:
    bare = set()
    for room in ("worker", "app/web"):
        for path in sorted((ROOT / room).rglob("*.py")):
            bare |= find_bare(path.read_text(), path.relative_to(ROOT).as_posix())
    assert sorted(bare - set(EXCUSED)) == [], "an effect or a commit without points around it"
    assert sorted(set(EXCUSED) - bare) == [], "excused, though there is nothing to excuse any more"


@pytest.mark.parametrize(
    "body",
    [
        "await step.parts.github.ensure_pull(1)",
        "crashpoint('x.before')\n    await github.ensure_pull(1)",
        "await github.ensure_pull(1)\n    crashpoint('x.after')",
        "crashpoint('x.before')\n    await github.ensure_pull(1)\n    await github.ensure_body(1)\n    crashpoint('x.after')",
        "async with self._parts.db.write() as session:\n        pass",
        "crashpoint('x.before')\n    async with parts.database.write() as session:\n        pass",
    ],
)
def test_act_without_a_point_on_either_side_is_found(body: str) -> None:
    assert find_bare(f"async def f():\n    {body}\n", "m.py") == {"m.py:f"}


def test_act_between_its_points_is_right() -> None:
    body = "crashpoint('x.before')\n    async with db.write() as session:\n        pass\n    crashpoint('x.after')"
    assert find_bare(f"async def f():\n    {body}\n", "m.py") == set()
