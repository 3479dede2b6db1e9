"""`issuewright doctor`: tries everything the product stands on, and says what to do where something fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import Chosen, ConfigOption, load

if TYPE_CHECKING:
    from app.cli.doctor.verdict import Check, Checked
    from app.github.inspection import Inspection
    from app.settings import Settings

CONFIGURATION = "configuration"


def doctor(
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check everything, and say what to do.

    Each line is a real try: it signs in at GitHub, writes to the database, sends itself a webhook, starts a sandbox
    and lets a program try to break out, asks the model. Exits 0 when nothing failed, 1 when something did, 2 when
    settings are missing or wrong.
    """
    from app.settings import DEFAULT_YAML

    settings = load(config)
    checked = asyncio.run(_examine(settings, config or Chosen.config or Path(DEFAULT_YAML)))
    code = _exit_code(checked)
    if as_json:
        from app.cli.show import show_json

        show_json({"ok": code == 0, "checks": [one.as_json() for one in checked]})
    else:
        _show(checked)
    if code:
        raise SystemExit(code)


async def _examine(settings: Settings, config: Path) -> list[Checked]:
    from app.cli.doctor.verdict import run_checks
    from app.cli.preflight import require_app
    from app.domain.errors import SettingsError

    checks = _own_checks(settings, config)
    try:
        require_app(settings)
    except SettingsError:
        # Without an App there is nothing to ask GitHub; the first check says what is missing.
        return await run_checks(checks)
    from app.github.access import GitHubAccess
    from app.github.inspection import Inspection

    access = GitHubAccess(
        settings.github_api_url,
        settings.github_url,
        settings.github_app_id or 0,
        settings.private_key_pem or "",
    )
    inspection = Inspection(access)
    try:
        return await run_checks([*checks, *_github_checks(settings, inspection)])
    finally:
        await inspection.aclose()


def _own_checks(settings: Settings, config: Path) -> list[Check]:
    from app.cli.doctor import machine, stores
    from app.cli.doctor.daytona import LIMIT_S as SANDBOX_LIMIT_S
    from app.cli.doctor.model import check_model
    from app.cli.doctor.verdict import Check

    return [
        Check(CONFIGURATION, lambda: machine.check_configuration(settings)),
        Check("state directory", lambda: machine.check_home(settings, config)),
        Check("database", lambda: stores.check_database(settings)),
        Check("redis", lambda: stores.check_redis(settings)),
        Check("git", machine.check_git),
        Check("sandbox", lambda: machine.check_sandboxes(settings), limit_s=SANDBOX_LIMIT_S),
        Check("model", lambda: check_model(settings), limit_s=25.0),
    ]


def _github_checks(settings: Settings, inspection: Inspection) -> list[Check]:
    from app.cli.doctor.github import GitHubChecks
    from app.cli.doctor.verdict import Check
    from app.cli.doctor.webhook import LIMIT_S, WebhookChecks
    from app.github.manifest import load_manifest

    github = GitHubChecks(settings, inspection, load_manifest())
    webhook = WebhookChecks(settings, inspection)
    return [
        Check("clock", github.clock),
        Check("credentials", github.credentials),
        Check("permissions", github.permissions),
        Check("installations", github.installations),
        Check("webhook", webhook.address),
        Check("deliveries", webhook.arrival, limit_s=LIMIT_S),
    ]


def _exit_code(checked: list[Checked]) -> int:
    from app.cli.doctor.verdict import State

    bad = {one.name for one in checked if one.verdict.state is State.FAILED}
    if CONFIGURATION in bad:
        return 2
    return 1 if bad else 0


def _show(checked: list[Checked]) -> None:
    width = max(len(one.name) for one in checked)
    for one in checked:
        verdict = one.verdict
        cure = f" → {verdict.cure}" if verdict.cure else ""
        print(f"{verdict.state:<7}  {one.name:<{width}}  {verdict.detail}{cure}")
