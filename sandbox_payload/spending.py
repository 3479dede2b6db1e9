"""What a session had cost before this sandbox went on with it: the agent's sums travel with its transcript."""

from __future__ import annotations

import json
import math
from pathlib import Path

_MARK = b'"type":"cost-state"'


def read_cost_before(config: Path, session_id: str) -> float:
    """In USD: the sum that the command line starts from when it resumes that session (seen in 2.1.332; it stands in no
    documentation). Where it can't be read it is 0: then that is counted once more, never less.
    """
    found = 0.0
    for path in (config / "projects").glob(f"*/{session_id}.jsonl"):
        with path.open("rb") as file:
            for line in file:
                if _MARK in line:
                    found = _sum_in(line, found)
    return found


def _sum_in(line: bytes, otherwise: float) -> float:
    """Texts of the work stand in the same file, so the mark alone says little."""
    try:
        state = json.loads(line)
    except (ValueError, RecursionError):
        return otherwise
    total = (
        state.get("totalCostUSD") if isinstance(state, dict) and state.get("type") == "cost-state" else None
    )
    if isinstance(total, bool) or not isinstance(total, int | float):
        return otherwise
    return float(total) if math.isfinite(total) and total >= 0 else otherwise
