"""The check of Daytona: key, snapshot, size, and a probe sandbox that looks around."""

from __future__ import annotations

from app.cli.doctor.verdict import Verdict, failed, ok, warning, worst
from app.sandbox.app_reach import why_silent
from app.sandbox.daytona import DaytonaSandboxes
from app.sandbox.daytona_account import DaytonaAccount
from app.sandbox.daytona_link import Link
from app.sandbox.daytona_probe import MachineFacts, probe_machine
from app.sandbox.image import IMAGE_VERSION

LIMIT_S = 90.0


RISK = (
    "behind a relay the model's key can be used from inside a sandbox by whatever its agent runs, past the gateway and "
    "its budgets: use a key with a spending limit of its own"
)


NEAR = (
    "many networks don't let a machine reach its own public address: let the host's name in PUBLIC_URL lead to an inner "
    "address here (DNS, /etc/hosts), or run the worker on the web process's host with the same ISSUEWRIGHT_HOME"
)


async def check_daytona(
    sandboxes: DaytonaSandboxes,
    allow_hosts: tuple[str, ...],
    *,
    model_url: str = "",
    key_may_enter: bool = False,
) -> Verdict:
    """Makes a machine for some seconds. Raises what the provider raises."""
    seen = await sandboxes.probe()
    if not seen.ok:
        return failed(seen.detail)
    account = sandboxes.account
    asks_model = account.link != Link.HTTP
    facts = await probe_machine(sandboxes.client, allow_hosts, model_url if asks_model else "")
    found = judge_link(facts, account, key_may_enter=key_may_enter)
    silent = await why_silent(sandboxes.near, account.app_url)
    return worst([ok(seen.detail), *judge(facts), *found, *judge_worker(silent, facts, account)])


def judge(facts: MachineFacts) -> list[Verdict]:
    """What a probe sandbox found in it, and what to do about it."""
    mend = "issuewright sandboxes build-image --replace, or mend SANDBOX_IMAGE"
    found = [failed(f"a sandbox was made, but {trouble}", mend) for trouble in facts.troubles]
    if not facts.troubles:
        found.append(ok(f"a sandbox there has claude-agent-sdk {facts.agent_sdk}"))
    if facts.image != IMAGE_VERSION:
        found.append(
            warning(
                f"its image is of version {facts.image or 'unknown'}, this program expects {IMAGE_VERSION}",
                "issuewright sandboxes build-image --replace",
            )
        )
    return found


def judge_worker(silent: str, facts: MachineFacts, account: DaytonaAccount) -> list[Verdict]:
    """Whether a worker on this machine reaches the web process: `silent` says why not. It carries for sandboxes behind a
    relay, and hands in what a sandbox had ready when it ended.
    """
    if not silent:
        return []
    if facts.app_trouble or account.link == Link.RELAY:
        lost = (
            f"this machine does not reach {account.app_url} ({silent}), so nothing is carried for sandboxes"
        )
        return [failed(lost, f"start the web process (`issuewright up`); where it runs, {NEAR}")]
    lost = "what one had ready when it ended can't be handed in, and is given up after ten minutes"
    return [warning(f"sandboxes reach {account.app_url}, but this machine does not ({silent}): {lost}", NEAR)]


def judge_link(facts: MachineFacts, account: DaytonaAccount, *, key_may_enter: bool) -> list[Verdict]:
    """How sandboxes and the app will talk, and why."""
    if not facts.app_trouble and account.link != Link.RELAY:
        return [ok("it reaches the app: link http")]
    why = (
        f"it can't reach {account.app_url} ({facts.app_trouble})"
        if facts.app_trouble
        else "SANDBOX_LINK=relay"
    )
    reach = (
        "PUBLIC_URL must be an address that the internet reaches, and Daytona's tier 3 or 4 is needed: on tiers 1 and 2 "
        "sandboxes reach a fixed list of hosts only"
    )
    if account.link == Link.HTTP:
        return [failed(f"a sandbox was made, but {why}", f"{reach}; or SANDBOX_LINK=auto")]
    if not key_may_enter and not account.model_secret:
        return [
            failed(
                f"{why}: link relay, and its agents have no model",
                f"{reach}; or let the model's key in: DAYTONA_MODEL_SECRET=NAME or MODEL_KEY_IN_SANDBOX=true",
            )
        ]
    if facts.model_trouble:
        return [
            failed(f"{why}: link relay, and the model is not reached either ({facts.model_trouble})", reach)
        ]
    way = "with the model's key in each sandbox" if key_may_enter else f"with secret {account.model_secret}"
    return [warning(f"{why}: link relay, {way}", RISK)]
