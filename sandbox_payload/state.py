"""Places in the state directory that several modules know."""

from __future__ import annotations

from pathlib import Path


def config_directory(state: Path) -> Path:
    """Where the agent's command line keeps its sessions (`CLAUDE_CONFIG_DIR`)."""
    return state / "claude"
