"""How far the run had come, for a payload that is started again in the same state directory."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Progress:
    """`round_done`: that round's manifest is with the app."""

    session_id: str | None = None
    round: int = 1
    round_done: bool = False
    cost_before_usd: float = 0.0
    """What the session had cost in earlier sandboxes."""

    @property
    def begun(self) -> bool:
        return self.session_id is not None


def read_progress(state: Path) -> Progress:
    try:
        found = json.loads((state / "progress.json").read_text())
        return Progress(
            found["session_id"],
            int(found["round"]),
            bool(found["round_done"]),
            float(found["cost_before_usd"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Progress()


def record_progress(state: Path, progress: Progress) -> None:
    temporary = state / "progress.new"
    temporary.write_text(json.dumps(asdict(progress)))
    os.replace(temporary, state / "progress.json")  # noqa: PTH105
