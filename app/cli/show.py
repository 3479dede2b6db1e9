"""Printing: tables on a terminal, tab-separated lines elsewhere, JSON when asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from app.cli.terminal import escape_unprintable

Row = Mapping[str, Any]


def show_json(value: Any) -> None:
    print(escape_unprintable(json.dumps(value, indent=2, ensure_ascii=False)))


def show_rows(columns: Sequence[str], rows: Sequence[Row], nothing: str) -> None:
    """One line per row with the named columns; `nothing` is said when there are none."""
    if not rows:
        print(nothing, file=sys.stderr)
        return
    lines = [[plain(row.get(column)) for column in columns] for row in rows]
    if not sys.stdout.isatty():
        for line in [list(columns), *lines]:
            print("\t".join(line))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        # Ids are copied from here into the next command: never cut.
        width = max(len(row[columns.index(column)]) for row in lines) if column == "id" else None
        # A column named by an id keeps its name: it is copied too.
        name = column if any(map(str.isdigit, column)) else column.replace("_", " ")
        table.add_column(name, no_wrap=column != "title", overflow="ellipsis", min_width=width)
    for line in lines:
        table.add_row(*(Text(cell) for cell in line))
    Console().print(table)


def show_fields(fields: Row) -> None:
    """One object, a field per line; what is empty is left out, and several items take a line each."""
    shown = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    width = max((len(name) for name in shown), default=0)
    for name, value in shown.items():
        items = value if isinstance(value, list) else [value]
        for position, item in enumerate(items):
            label = name.replace("_", " ") if position == 0 else ""
            print(f"{label:<{width}}  {plain(item)}")


def plain(value: Any) -> str:
    """One line of text without control characters: titles and names are other people's, a terminal obeys them."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return "  ".join(plain(one) for one in value.values() if one is not None)
    if isinstance(value, float):
        return f"{value:.2f}"
    text = _age(value) if isinstance(value, str) and _is_time(value) else str(value)
    return "".join(char if char.isprintable() else " " for char in text).strip()


def _is_time(text: str) -> bool:
    return len(text) >= 20 and text[4:5] == "-" and text[10:11] == "T"


def _age(text: str) -> str:
    """A time of the API as people read it: how long ago, or how far ahead."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()
    except (ValueError, TypeError):
        return text
    far = abs(seconds)
    units = ((86_400, "d"), (3600, "h"), (60, "min"))
    size, unit = next((one for one in units if far >= one[0]), (1, "s"))
    said = f"{far / size:.0f} {unit}"
    return f"in {said}" if round(seconds) < 0 else f"{said} ago"
