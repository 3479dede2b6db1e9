"""The check of Daytona: key, snapshot, size, and a probe sandbox that looks around."""

from __future__ import annotations

from app.cli.doctor.verdict import Verdict, failed, ok, warning, worst
from app.sandbox.daytona import DaytonaSandboxes
from app.sandbox.daytona_probe import MachineFacts, probe_machine
from app.sandbox.image import IMAGE_VERSION

LIMIT_S = 90.0


async def check_daytona(sandboxes: DaytonaSandboxes, allow_hosts: tuple[str, ...]) -> Verdict:
    """Makes a machine for some seconds. Raises what the provider raises."""
    seen = await sandboxes.probe()
    if not seen.ok:
        return failed(seen.detail)
    facts = await probe_machine(sandboxes.client, allow_hosts)
    return worst([ok(seen.detail), *judge(facts)])


def judge(facts: MachineFacts) -> list[Verdict]:
    """What a probe sandbox found, and what to do about it."""
    found = [failed(f"a sandbox was made, but {trouble}", _cure(facts)) for trouble in facts.troubles]
    if not facts.troubles:
        found.append(ok(f"a sandbox there has claude-agent-sdk {facts.agent_sdk} and reaches the app"))
    if facts.image != IMAGE_VERSION:
        found.append(
            warning(
                f"its image is of version {facts.image or 'unknown'}, this program expects {IMAGE_VERSION}",
                "issuewright sandboxes build-image --replace",
            )
        )
    return found


def _cure(facts: MachineFacts) -> str:
    if facts.reached:
        return "issuewright sandboxes build-image --replace, or mend SANDBOX_IMAGE"
    return (
        "PUBLIC_URL must be an address that the internet reaches, and Daytona's tier 3 or 4 is needed: on tiers 1 and 2 "
        "sandboxes reach a fixed list of hosts only"
    )
