"""What `list` and `show` do alike for specs, tasks and sandboxes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from app.cli.show import show_fields, show_json, show_rows

if TYPE_CHECKING:
    from app.settings import Settings


def show_list(settings: Settings, path: str, columns: Sequence[str], limit: int, *, as_json: bool) -> None:
    page = asyncio.run(_list(settings, path, limit))
    if as_json:
        show_json(page)
        return
    show_rows(columns, page["items"], nothing=f"no {path.strip('/')} yet")


def show_one(settings: Settings, path: str, *, as_json: bool) -> None:
    found = asyncio.run(_get(settings, path))
    if as_json:
        show_json(found)
    else:
        show_fields(found)


async def _list(settings: Settings, path: str, limit: int) -> dict[str, Any]:
    from app.cli.operator import operator

    async with operator(settings) as api:
        return await api.list(path, limit)


async def _get(settings: Settings, path: str) -> dict[str, Any]:
    from app.cli.operator import operator

    async with operator(settings) as api:
        found: dict[str, Any] = await api.get(path)
        return found
