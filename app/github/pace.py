"""How fast one installation may be called. The state is shared by all workers, so it lives behind a protocol."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from app.domain.ids import InstallationId


class Pace(Protocol):
    """The gate that every call of an installation passes.

    GitHub asks for at least a second between writes and silence after a limit was hit; other installations are
    not held up. Both methods that ask may wait for at most about a second and else raise RetryAt with scope
    `installation`.
    """

    async def before_read(self, installation_id: InstallationId) -> None:
        """Raises RetryAt while a limit is in force."""

    async def before_write(self, installation_id: InstallationId) -> None:
        """Takes the next free moment for a write; raises RetryAt while a limit is in force."""

    async def after_limit(self, installation_id: InstallationId, at: datetime) -> None:
        """GitHub said: nothing from this installation before `at` (aware UTC). A later time stays."""
