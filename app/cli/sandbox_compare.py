"""`issuewright sandboxes compare`: two sandboxes side by side, from what the operator API tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from app.cli.operator import Operator

_EDITED = "agent.file_edited"
_PHASES = ("spec.phase_started", "spec.phase_completed", "spec.phase_failed", "spec.phase_retry")
_ERROR = "agent.error"


async def fetch_summary(api: Operator, sandbox_id: str) -> dict[str, Any]:
    """One sandbox as plain data. Raises NotShown when there is no such sandbox."""
    box = await api.get(f"/sandboxes/{sandbox_id}")
    events = await _fetch_events(api, sandbox_id)
    task = await api.get(f"/tasks/{box['task_id']}") if box["task_id"] else None
    return {
        "id": sandbox_id,
        **{name: box[name] for name in ("state", "reason", "spec_id", "attempt", "model", "turns", "tools")},
        "task": f"{task['key']} {task['title']}" if task else None,
        "seconds": _seconds(box["started_at"] or box["created_at"], box["ended_at"] or box["updated_at"]),
        "cost_usd": box["spent_usd"],
        "model_key_of": box["model_key_of"],
        "events": box["last_seq"],
        "errors": sum(one["event_type"] == _ERROR for one in events),
        "phases": _phases(events),
        "files": _files(events),
        "test": _test(task),
    }


async def _fetch_events(api: Operator, sandbox_id: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await api.get(
            f"/sandboxes/{sandbox_id}/events",
            limit=200,
            cursor=cursor,
            event_type=[_EDITED, _ERROR, *_PHASES],
        )
        events += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return events


def _seconds(began: str, ended: str) -> float:
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()


def _phases(events: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """How each planning phase ended, how long it took and how often it was tried; times are ours, by arrival."""
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        if event["event_type"] not in _PHASES:
            continue
        what = event["event_type"].removeprefix("spec.phase_")
        row = found.setdefault(
            str(event["event_data"].get("phase")), {"began": event["received_at"], "attempts": 1}
        )
        row["state"] = what
        row["seconds"] = _seconds(row["began"], event["received_at"])
        row["attempts"] += what == "retry"
    return {name: {key: row[key] for key in ("state", "seconds", "attempts")} for name, row in found.items()}


def _files(events: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Lines that were added to and removed from each file, over all edits."""
    found: dict[str, dict[str, int]] = {}
    for event in events:
        if event["event_type"] == _EDITED:
            data = event["event_data"]
            row = found.setdefault(str(data.get("file_path")), {"added": 0, "removed": 0})
            row["added"] += _count(data.get("lines_added"))
            row["removed"] += _count(data.get("lines_removed"))
    return found


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 10**9 else 0


def _test(task: dict[str, Any] | None) -> dict[str, Any] | None:
    ran = (task or {}).get("detail", {}).get("test")
    return {name: ran[name] for name in ("command", "exit_code", "seconds")} if ran else None


def side_by_side(left: dict[str, Any], right: dict[str, Any]) -> list[dict[str, str]]:
    """Rows for people: a measure and both values; what neither has is left out."""
    rows = [
        (name.replace("_", " "), left[name], right[name])
        for name in (
            "task",
            "state",
            "reason",
            "attempt",
            "model",
            "model_key_of",
            "turns",
            "tools",
            "errors",
            "events",
        )
    ]
    rows += [("time", f"{left['seconds']:.0f} s", f"{right['seconds']:.0f} s")]
    rows += [("cost", f"${left['cost_usd']:.2f}", f"${right['cost_usd']:.2f}")]
    for title, key, words in (("phase", "phases", _phase_words), ("file", "files", _file_words)):
        for name in dict.fromkeys([*left[key], *right[key]]):
            rows.append((f"{title} {name}", words(left[key].get(name)), words(right[key].get(name))))
    rows.append(("test", _test_words(left["test"]), _test_words(right["test"])))
    return [
        {"measure": name, left["id"]: _text(one), right["id"]: _text(other)}
        for name, one, other in rows
        if one is not None or other is not None
    ]


def _phase_words(row: dict[str, Any] | None) -> str | None:
    if row is None:
        return None
    again = f", {row['attempts']} attempts" if row["attempts"] > 1 else ""
    return f"{row['state']}, {row['seconds']:.0f} s{again}"


def _file_words(row: dict[str, int] | None) -> str | None:
    return None if row is None else f"+{row['added']} -{row['removed']}"


def _test_words(ran: dict[str, Any] | None) -> str | None:
    if ran is None:
        return None
    if ran["exit_code"] is None:
        return "cut at its time limit"
    return "passed" if ran["exit_code"] == 0 else f"failed ({ran['exit_code']})"


def _text(value: object) -> str:
    return "-" if value is None else str(value)
