"""How a sandbox on Daytona and the app talk: by HTTP, or, where the machine can't reach the app, through a relay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from app.domain.credentials import CredentialScope
from app.domain.errors import Denied
from app.domain.ports import SandboxOrder
from app.domain.remote import AppSilent, DirectModel
from app.sandbox import daytona_inside as inside, remote_check
from app.sandbox.app_reach import why_silent
from app.sandbox.daytona_account import DaytonaAccount
from app.sandbox.daytona_client import DaytonaClient

BELIEVED_FOR = timedelta(hours=1)
"""How long it holds for the next machines that one could not reach the app."""
ASK_AGAIN = timedelta(seconds=20)
"""An app that answers nobody."""
LONGEST_PAUSE = timedelta(minutes=5)
"""Between two machines that are made to find out whether it answers them, though it still does not answer this process."""
RELAY_LABEL = {"link": "relay"}
"""Of machines that were made to reach the model's API instead of the app."""

NO_MODEL_WAY = (
    "sandboxes can't reach this Issuewright from Daytona's network, so their agents would have no model. The operator can "
    "give PUBLIC_URL an address that they reach (Daytona's tier 3 or 4), or let the model's key into sandboxes: "
    "DAYTONA_MODEL_SECRET names a secret at Daytona, MODEL_KEY_IN_SANDBOX=true hands the key itself in"
)
NO_OWN_KEY = (
    "sandboxes can't reach this Issuewright from Daytona's network, and the model key {owner} may not be put into one: the "
    "operator can allow that with MODEL_KEY_IN_SANDBOX=true"
)


class Link(StrEnum):
    AUTO = "auto"
    HTTP = "http"
    RELAY = "relay"


class LinkChoice:
    """`auto` asks each machine whether it reaches the app, and for a while none any more after one that does not. `near`:
    the web process's socket on this host.
    """

    def __init__(
        self, account: DaytonaAccount, clock: Callable[[], datetime], near: Path | None = None
    ) -> None:
        self._account = account
        self._clock = clock
        self._near = near
        self._until_at: datetime | None = None
        self._silences = 0
        self._machine_at: datetime | None = None
        """After the app answered nobody: when the next machine may try, whatever this process finds."""

    def known(self) -> bool | None:
        """Whether a machine that is made now needs the relay; None when one has to be asked."""
        if self._account.link != Link.AUTO:
            return self._account.link == Link.RELAY
        return True if self._until_at is not None and self._clock() < self._until_at else None

    async def decide(self, client: DaytonaClient, machine: Any) -> bool:
        """True: relay. Costs one short program in the machine when it isn't known. Raises AppSilent when the app does not
        answer this process either, and what `DaytonaClient.call` does.
        """
        known = self.known()
        if known is not None or is_made_for_relay(machine):
            return known is not False
        if await reaches_app(client, machine) is not False:  # where it says nothing, its heartbeat decides
            self._heard()
            return False
        silent = await why_silent(self._near, self._account.app_url)
        if silent:
            self._machine_at = self._clock() + min(ASK_AGAIN * 2**self._silences, LONGEST_PAUSE)
            self._silences = min(self._silences + 1, 10)
            raise self._silent(silent)
        self._heard()
        self._until_at = self._clock() + BELIEVED_FOR
        return True

    @property
    def is_doubtful(self) -> bool:
        """Whether the app answered nobody when it was last asked for a machine's sake."""
        return self._machine_at is not None

    async def require_app(self) -> None:
        """Before a machine is paid for. Raises AppSilent while the app that answered nobody does not answer this process
        either, and it is too early for a machine to try: this process may be the only one that does not reach it.
        """
        if self._machine_at is None or self._clock() >= self._machine_at:
            return
        silent = await why_silent(self._near, self._account.app_url)
        if silent:
            raise self._silent(silent)
        self._heard()

    def _heard(self) -> None:
        self._silences, self._machine_at = 0, None

    def _silent(self, why: str) -> AppSilent:
        return AppSilent(f"the app answers nobody ({why})", self._clock() + ASK_AGAIN)


async def reaches_app(client: DaytonaClient, machine: Any) -> bool | None:
    """None when the machine says nothing that makes sense."""
    program = await asyncio.to_thread(Path(remote_check.__file__).read_text, encoding="utf-8")
    _, output = await inside.run_python(client, machine, program, client.account.app_url)
    try:
        return not json.loads(output.strip().splitlines()[-1])["app"]
    except (ValueError, KeyError, IndexError, TypeError):
        return None


def is_made_for_relay(machine: Any) -> bool:
    return bool(RELAY_LABEL.items() <= dict(machine.labels or {}).items())


def require_model_way(account: DaytonaAccount, order: SandboxOrder) -> DirectModel:
    """How an agent behind a relay asks the model: with `key` the key goes in, without one Daytona's secret stands for it.

    Raises Denied with what the operator can do when neither is allowed.
    """
    model = order.direct_model
    if model is not None and model.key:
        return model
    if model is not None and model.scope != CredentialScope.OPERATOR:
        raise Denied(NO_OWN_KEY.format(owner=f"of the {model.scope}"), reason="sandbox")
    if model is not None and account.model_secret:
        return model
    raise Denied(NO_MODEL_WAY, reason="sandbox")
