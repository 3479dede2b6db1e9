"""Which provider the settings ask for."""

from __future__ import annotations

from pathlib import Path

from app.domain.errors import SettingsError
from app.domain.ports import Sandboxes
from app.sandbox.bubblewrap import BubblewrapSandboxes
from app.sandbox.local import LocalHost
from app.sandbox.process import ProcessSandboxes


def make_sandboxes(provider: str, home: Path, socket_dir: Path) -> Sandboxes:
    """Raises SettingsError for a provider that this version does not have."""
    host = LocalHost(home=home, socket_dir=socket_dir)
    if provider == "bubblewrap":
        return BubblewrapSandboxes(host)
    if provider == "process":
        return ProcessSandboxes(host)
    raise SettingsError(
        f"SANDBOX_PROVIDER: {provider} is not available in this version; use bubblewrap (or unset DAYTONA_API_KEY)"
    )
