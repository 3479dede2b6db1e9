"""Which provider the settings ask for."""

from __future__ import annotations

from pathlib import Path

from app.domain.errors import SettingsError
from app.domain.ports import Sandboxes
from app.domain.remote import Accounts
from app.sandbox.bubblewrap import BubblewrapSandboxes
from app.sandbox.daytona import DaytonaSandboxes
from app.sandbox.daytona_account import DaytonaSettings, daytona_account
from app.sandbox.daytona_accounts import DaytonaAccounts
from app.sandbox.launch import GATEWAY_SOCKET
from app.sandbox.local import LocalHost
from app.sandbox.process import ProcessSandboxes


def make_sandboxes(
    provider: str,
    home: Path,
    socket_dir: Path,
    settings: DaytonaSettings,
    instance: str = "",
    accounts: Accounts | None = None,
) -> Sandboxes:
    """`instance` is the owner label of remote sandboxes; `accounts`: whose they may be in beside the operator's. Raises
    SettingsError when the provider's settings are wrong.
    """
    if provider == "daytona":
        own, near = daytona_account(settings, instance), socket_dir / GATEWAY_SOCKET
        if accounts is None:
            return DaytonaSandboxes(own, home, near=near)
        return DaytonaAccounts(own, accounts, lambda account: DaytonaSandboxes(account, home, near=near))
    host = LocalHost(home=home, socket_dir=socket_dir)
    if provider == "bubblewrap":
        return BubblewrapSandboxes(host)
    if provider == "process":
        return ProcessSandboxes(host)
    raise SettingsError(f"SANDBOX_PROVIDER: there is no {provider}; use daytona, bubblewrap or process")
