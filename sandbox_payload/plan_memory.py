"""What was handed in so far, on disk, for a payload that is started again in the same state directory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from sandbox_payload.wire.plan import Finding, PhaseName


class PhaseRecord(BaseModel):
    """How far one phase is."""

    output: dict[str, Any] | None = None
    """What was accepted last."""
    revision: int = 0
    """How many outputs were accepted, one of an earlier sandbox included."""
    refused: int = 0
    """Attempts since then that came to nothing."""
    attempts: int = 0
    """How many it took to get `output`."""
    seconds: float = 0.0
    told: bool = True
    """Whether `output` was reported."""
    findings: list[Finding] = Field(default_factory=list)
    """Why the last attempt came to nothing."""


_RECORDS = TypeAdapter(dict[PhaseName, PhaseRecord])


def read_records(path: Path, finished: Mapping[str, dict[str, Any]]) -> dict[PhaseName, PhaseRecord]:
    """What the file says; without one, `finished` outputs of an earlier sandbox as their first revision."""
    try:
        return _RECORDS.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return {
            PhaseName(name): PhaseRecord(output=output, revision=1, attempts=1)
            for name, output in finished.items()
            if name in set(PhaseName)
        }


def write_records(path: Path, records: Mapping[PhaseName, PhaseRecord]) -> None:
    temporary = path.with_suffix(".new")
    text = json.dumps(_RECORDS.dump_python(dict(records), mode="json"))
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)  # noqa: PTH105
