"""What `list` and `show` do alike for specs, tasks and sandboxes: exactly what the operator API answers, read without it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from app.cli.show import show_fields, show_json, show_rows

if TYPE_CHECKING:
    from pydantic import BaseModel

    from app.db.engine import Database
    from app.settings import Settings

Found = TypeVar("Found")


def show_list(settings: Settings, kind: str, columns: Sequence[str], limit: int, *, as_json: bool) -> None:
    """`kind`: specs, tasks or sandboxes. Raises SettingsError when the database is not at this release's schema."""
    from app.web.operator_reads import read_sandboxes, read_specs, read_tasks

    lists: Mapping[str, Callable[[Database, None, int], Awaitable[BaseModel]]]
    lists = {"specs": read_specs, "tasks": read_tasks, "sandboxes": read_sandboxes}

    async def look(database: Database) -> BaseModel:
        return await lists[kind](database, None, limit)

    page = asyncio.run(_looking(settings, look)).model_dump(mode="json")
    if as_json:
        show_json(page)
    else:
        show_rows(columns, page["items"], nothing=f"no {kind} yet")


def show_one(settings: Settings, kind: str, item_id: str, *, as_json: bool) -> None:
    """`kind`: spec, task or sandbox. Raises IssuewrightError when there is none, SettingsError as above."""
    from app.domain.errors import IssuewrightError
    from app.web.operator_reads import read_sandbox, read_spec, read_task

    views: Mapping[str, Callable[[Database, str], Awaitable[BaseModel | None]]]
    views = {"spec": read_spec, "task": read_task, "sandbox": read_sandbox}

    async def look(database: Database) -> BaseModel | None:
        return await views[kind](database, item_id)

    found = asyncio.run(_looking(settings, look))
    if found is None:
        raise IssuewrightError(f"there is no such {kind}")
    shown = found.model_dump(mode="json")
    if as_json:
        show_json(shown)
    else:
        show_fields(_for_people(shown))


def _for_people(shown: dict[str, Any]) -> dict[str, Any]:
    """What a person reads line by line; the whole outputs of phases are for `--json`."""
    kept = dict(shown)
    if "phases" in shown:
        kept["phases"] = [_phase_line(phase) for phase in shown["phases"]]
    if shown.get("supervision"):
        told = kept.pop("supervision")
        seen = f"{told['trouble']}: {told['seen']}" if told["trouble"] else "none was noticed before its end"
        log = f"{told['log_bytes']} bytes of its log: `issuewright sandboxes logs {shown['id']}`"
        kept |= {"trouble": seen, "done": told["done"], "kept": log if told["log_bytes"] else None}
    for name in ("settings", "detail"):
        if shown.get(name):
            lines = ((key, _value(value)) for key, value in shown[name].items() if value is not None)
            kept[name] = [f"{key}: {text}" for key, text in lines if text]
    return kept


def _phase_line(phase: dict[str, Any]) -> str:
    words = [f"{phase['phase']:<13}{phase['state']}"]
    if phase["attempts"]:
        words.append(f"attempts {phase['attempts']}")
    if phase["score"] is not None:
        words.append(f"quality {phase['score']:.2f}")
    return ", ".join([*words, *phase["findings"]])


def _value(value: object) -> str:
    """Short on one line; what is nested is for `--json`."""
    if isinstance(value, list):
        return ", ".join(
            str(one.get("path", one.get("criterion", "…"))) if isinstance(one, dict) else str(one)
            for one in value
        )
    if isinstance(value, dict):
        return ", ".join(
            f"{key} {_value(one)}"
            for key, one in value.items()
            if one is not None and (not isinstance(one, str) or len(one) < 80)
        )
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


async def _looking(settings: Settings, look: Callable[[Database], Awaitable[Found]]) -> Found:
    from app.db.engine import Database
    from app.db.schema import require_current_schema

    await require_current_schema(settings.database)
    async with aclosing(Database(settings.database)) as database:
        return await look(database)
