"""A probe sandbox on Daytona: made, asked what is in it and whether it reaches the app, deleted."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import Unexpected
from app.domain.ids import SandboxId
from app.domain.ports import SandboxOrder
from app.sandbox import daytona_inside as inside, remote_check
from app.sandbox.daytona_client import DaytonaClient
from app.sandbox.daytona_making import make_params

PROBE_LABEL = "issuewright-probe"
START_S = 45.0
_TTL_MIN = 5


@dataclass(frozen=True)
class MachineFacts:
    """`image` is the version that the machine was built from, empty when it does not say. `app_trouble` and
    `model_trouble`: why those can't be reached from inside, empty when they are.
    """

    agent_sdk: str
    image: str
    troubles: tuple[str, ...]
    app_trouble: str = ""
    model_trouble: str = ""


def _program() -> str:
    return Path(remote_check.__file__).read_text(encoding="utf-8")


async def probe_machine(
    client: DaytonaClient, allow_hosts: tuple[str, ...], model_url: str = ""
) -> MachineFacts:
    """Costs a few seconds of a machine. It ends by itself in five minutes when this process dies.

    Raises what `ports.Sandboxes` names, and Unexpected when the machine gives no answer.
    """
    sdk = await client.sdk()
    name = f"iw-probe-{secrets.token_hex(6)}"
    # The operator's size; no network rules, which a restricted tier would refuse: what it can reach is the question.
    order = SandboxOrder(
        sandbox_id=SandboxId("probe"), name=name, labels={PROBE_LABEL: "1"}, environment={}, inputs={}, token="",
        mirror=Path(), branch="", start_sha="", agent_config_sha="", memory_gb=1, cpu=1, disk_gb=3,
        time_limit_s=60, allow_hosts=allow_hosts,
    )  # fmt: skip
    params = make_params(sdk, client.account, order, relayed=False)
    params.network_allow_list = params.domain_allow_list = None
    params.ttl_minutes, params.auto_delete_interval = _TTL_MIN, 0
    try:
        machine = await client.call(lambda daytona: daytona.create(params, timeout=START_S), START_S + 5)
        code, output = await inside.run_python(client, machine, _program(), client.account.app_url, model_url)
    finally:
        await client.ensure_deleted(name)
    try:
        facts = json.loads(output.strip().splitlines()[-1])
        troubles = tuple(str(one)[:300] for one in facts["troubles"])
        unreached = (str(facts["app"])[:300], str(facts["model"])[:300])
        return MachineFacts(str(facts["agent_sdk"]), str(facts["image"]), troubles, *unreached)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise Unexpected(f"the probe sandbox answered with {code}: {output.strip()[:300]}") from error
