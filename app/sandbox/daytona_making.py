"""From an order to a running agent on Daytona, however long it takes and wherever an earlier try stopped.

Everything is found again by the machine's name and by what is in it; nothing here is remembered. A worker that dies in
the middle leaves a machine that the next one goes on with.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.domain.errors import Denied, OutsideError, Refused, RetryAt
from app.domain.ports import SandboxOrder
from app.domain.remote import AppSilent, DirectModel
from app.git.command import GitFailed
from app.sandbox import daytona_inside as inside
from app.sandbox.daytona_account import DaytonaAccount, Size
from app.sandbox.daytona_client import DaytonaClient, age
from app.sandbox.daytona_errors import BUSY, NETWORK_FIXED, SNAPSHOT_ASLEEP
from app.sandbox.daytona_link import RELAY_LABEL, LinkChoice, is_made_for_relay, require_model_way
from app.sandbox.daytona_parcel import pack_parcel, scratch
from app.sandbox.daytona_states import BUILDING, Stage, stage_of, state_text

_log = logging.getLogger(__name__)

AUTO_STOP_MIN = 30
AUTO_DELETE_MIN = 120
"""After a stop. At once would take an unsaved spool with it; never would leave a machine that is paid for."""
TTL_MARGIN_MIN = AUTO_STOP_MIN + AUTO_DELETE_MIN
"""Past the time limit of the work. A machine that was left alone to its limit is stopped after it, and has its time then:
a sooner end would take what it holds with it. Nothing keeps one running for so long but somebody who talks to it.
"""


@dataclass(frozen=True)
class DaytonaPace:
    """Seconds: the longest wait for a start and for an image's first build, between looks, for an upload, for the POST
    of a create, of a step's own patience, between two signs that a machine is still wanted, the longest one between two tries to read
    a machine's files.
    """

    start_s: float = 600.0
    build_s: float = 1800.0
    look_s: float = 1.0
    upload_s: float = 900.0
    create_s: float = 30.0
    patience_s: float = 5.0
    keep_alive_s: float = 300.0
    reread_s: float = 10.0


class Failed(Exception):
    """The machine will not do; the text is the reason. Another attempt under a new name may."""


async def bring_up(
    client: DaytonaClient,
    order: SandboxOrder,
    home: Path,
    pace: DaytonaPace,
    payload: Path,
    links: LinkChoice,
) -> None:
    """Returns when the agent has been started. Raises Failed, and what `ports.Sandboxes` names."""
    if links.known():
        require_model_way(client.account, order)  # before anything is paid for
    if links.is_doubtful and await client.find(order.name) is None:
        await links.require_app()
    machine = await _until_started(client, order, pace, links)
    if (await inside.fetch_agent(client, machine)).launched:
        return None
    model = None
    try:
        relayed = await links.decide(client, machine)
    except AppSilent:
        await client.ensure_deleted(order.name)  # nobody pays for a machine that waits for the app
        raise
    if relayed:
        if is_made_for_relay(machine):
            model = require_model_way(client.account, order)
        else:
            # What it may reach and what stands in its environment is said when a machine is made.
            await _delete_and_wait(client, order.name, pace)
            return await bring_up(client, order, home, pace, payload, links)
    try:
        with scratch(home / "parcels") as directory:
            model_url = model.base_url if model is not None else ""
            parcel = await pack_parcel(order, directory, client.account.app_url, payload, model_url)
            await inside.upload(client, machine, parcel, _secrets(order, model), pace.upload_s)
    except GitFailed as error:
        raise Failed(f"setup_failed: {error}") from error
    return await inside.launch(client, machine, relayed=model is not None)


def _secrets(order: SandboxOrder, model: DirectModel | None) -> dict[str, str]:
    key = {"model_key": model.key} if model is not None and model.key else {}
    return {"token": order.token, **key}


async def _delete_and_wait(client: DaytonaClient, name: str, pace: DaytonaPace) -> None:
    """Until the name is free again. Raises RetryAt when that takes too long."""
    until = time.monotonic() + pace.create_s
    await client.ensure_deleted(name)
    while await client.find(name) is not None:
        if time.monotonic() > until:
            raise RetryAt(f"Daytona is still destroying {name}", client.clock() + BUSY)
        await asyncio.sleep(pace.look_s)


async def require_size(client: DaytonaClient) -> None:
    """Raises Refused when a size was asked for that the snapshot does not have, Denied when there is no snapshot."""
    account = client.account
    if account.image:
        return
    snapshot = await client.find_snapshot(account.snapshot)
    if snapshot is None:
        raise Denied(missing_snapshot(account), reason="sandbox")
    asked = account.asked_size
    brought = Size(int(snapshot.mem), int(snapshot.cpu), int(snapshot.disk))
    if asked is not None and asked != brought:
        raise Refused(
            f"snapshot {account.snapshot} brings its own size ({brought}); SANDBOX_MEMORY_GB, SANDBOX_CPU and "
            f"SANDBOX_DISK_GB ({asked}) need SANDBOX_IMAGE instead of a snapshot",
            code="size",
        )


def missing_snapshot(account: DaytonaAccount) -> str:
    return (
        f"there is no snapshot {account.snapshot} in this Daytona organization: make it with "
        "`issuewright sandboxes build-image`, or name another in SANDBOX_SNAPSHOT"
    )


async def _create(client: DaytonaClient, order: SandboxOrder, pace: DaytonaPace, *, relayed: bool) -> Any:
    """A new machine, or the one that a create left whose answer said something else. Each refusal that can be mended is
    mended once, whichever comes first.
    """
    await require_size(client)
    params = make_params(await client.sdk(), client.account, order, relayed=relayed)
    mended: set[str] = set()
    while True:
        try:
            return await _create_once(client, order.name, params, pace)
        except Refused as error:
            if error.code in mended or error.code not in {NETWORK_FIXED, SNAPSHOT_ASLEEP}:
                raise
            mended.add(error.code)
            code = error.code
        if code == NETWORK_FIXED:
            _log.warning("Daytona's tier of this organization has a fixed network: no allow list is set")
            params.network_allow_list = params.domain_allow_list = None
            continue
        with suppress(Refused):  # somebody else has just done it
            await client.call(lambda daytona: daytona.snapshot.activate(client.account.snapshot))


async def _create_once(client: DaytonaClient, name: str, params: Any, pace: DaytonaPace) -> Any:
    try:
        return await client.call(
            lambda daytona: daytona.create(params, timeout=pace.create_s), pace.create_s + 5
        )
    except OutsideError as error:
        # Slow, dropped, or in an error state: three of these leave a machine without telling its id.
        with suppress(OutsideError):
            left = await client.find(name)
            if left is not None:
                return left
        if isinstance(error, RetryAt | Denied | Refused):
            raise
        raise Failed(f"Daytona could not create it: {error}") from error


async def _until_started(
    client: DaytonaClient, order: SandboxOrder, pace: DaytonaPace, links: LinkChoice
) -> Any:
    """The machine, made unless it is there. One that fails, or takes too long, is deleted here: it would go on costing.

    How long says, of one that an earlier try made, its age, else every try would give it its whole time again; of one
    that is made now our own clock alone, whatever Daytona's shows.
    """
    name, began = order.name, time.monotonic()
    found = await client.find(name)
    before_s, built = 0.0, False
    if found is not None:
        old = age(found, client.clock())
        before_s = max(0.0, old.total_seconds()) if old is not None else 0.0
        built = bool(client.account.image)  # perhaps, before anybody looked
    machine = found or await _create(client, order, pace, relayed=bool(links.known()))
    while (stage := stage_of(machine.state)) is not Stage.STARTED:
        state = state_text(machine.state)
        built = built or state in BUILDING
        waited_s = before_s + time.monotonic() - began
        if stage in {Stage.BROKEN, Stage.HALTED, Stage.GOING, Stage.GONE}:
            reason = getattr(machine, "error_reason", None) or ""
            await _give_up(client, name, f"Daytona: {state} {' '.join(str(reason).split())[:300]}".strip())
        if waited_s > (pace.build_s if built else pace.start_s):
            await _give_up(client, name, f"Daytona: still {state} after {waited_s:.0f} s")
        await asyncio.sleep(pace.look_s)
        found = await client.find(name)
        if found is None:
            raise Failed("Daytona: it vanished while it was being made")
        machine = found
    return machine


async def _give_up(client: DaytonaClient, name: str, reason: str) -> None:
    with suppress(OutsideError):  # what can't be deleted now goes with the spec's end or the sweep
        await client.ensure_deleted(name)
    raise Failed(reason)


def make_params(sdk: Any, account: DaytonaAccount, order: SandboxOrder, *, relayed: bool) -> Any:
    """The SDK's parameters for an order. Nothing secret: all of it is shown to the whole organization."""
    urls = (account.app_url,)
    labels = dict(order.labels)
    secrets = None
    if relayed:
        model = require_model_way(account, order)
        urls, labels = (model.base_url,), {**labels, **RELAY_LABEL}
        secrets = None if model.key else {"ANTHROPIC_API_KEY": account.model_secret}
    common: dict[str, Any] = {
        "name": order.name,
        "labels": labels,
        "language": "python",
        "public": False,
        "auto_stop_interval": AUTO_STOP_MIN,
        "auto_delete_interval": AUTO_DELETE_MIN,
        "ttl_minutes": math.ceil(order.time_limit_s / 60) + TTL_MARGIN_MIN,
        **({"secrets": secrets} if secrets else {}),
        **network_rules(urls, tuple(order.allow_hosts)),
    }
    if not account.image:
        return sdk.CreateSandboxFromSnapshotParams(snapshot=account.snapshot, **common)
    size = sdk.Resources(cpu=order.cpu, memory=order.memory_gb, disk=order.disk_gb)
    return sdk.CreateSandboxFromImageParams(image=account.image, resources=size, **common)


def network_rules(urls: tuple[str, ...], allow_hosts: tuple[str, ...]) -> dict[str, str]:
    """The hosts of `urls` and the operator's; a list replaces everything that is open by default."""
    names: dict[str, None] = {}
    networks: dict[str, None] = {}
    for url in urls:
        host = urlsplit(url).hostname or ""
        try:
            address = ip_address(host)
        except ValueError:
            names[host] = None
        else:
            networks[f"{address}/{address.max_prefixlen}"] = None
    names |= dict.fromkeys(allow_hosts)
    rules = {"network_allow_list": ",".join(networks), "domain_allow_list": ",".join(names)}
    return {name: hosts for name, hosts in rules.items() if hosts}
