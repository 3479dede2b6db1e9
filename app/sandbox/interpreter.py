"""Where this installation's Python and the agent SDK are, so that a sandbox gets exactly these and nothing beside."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

_SDK = "claude_agent_sdk"


@dataclass(frozen=True)
class Interpreter:
    """`executable` lies below `prefixes[0]` (never in a virtual environment). `packages` is the directory that holds
    the agent SDK and what it needs; None when the SDK is not installed.
    """

    executable: Path
    prefixes: tuple[Path, ...]
    packages: Path | None


def find_interpreter() -> Interpreter:
    """The base interpreter behind `sys.executable`. Nothing of the SDK is imported."""
    prefix = Path(sys.base_prefix)
    named = prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    executable = named if named.exists() else Path(sys.executable).resolve()
    prefixes = dict.fromkeys((prefix, Path(sys.base_exec_prefix)))
    return Interpreter(executable, tuple(prefixes), find_packages())


def find_packages() -> Path | None:
    spec = importlib.util.find_spec(_SDK)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent.parent
