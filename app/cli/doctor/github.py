"""Whether GitHub knows us, by its own answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.cli.doctor.verdict import Verdict, failed, ok, warning, worst
from app.domain.errors import Denied, Gone, RetryAt
from app.github.inspection import AppSeen, Inspection, InstallationSeen, lacking
from app.settings import Settings

MAX_SKEW_S = 60
"""The App's signature is dated a minute back; a clock that is further ahead makes GitHub refuse it."""
SMALL_SKEW_S = 5


class GitHubChecks:
    """Methods raise OutsideError when GitHub can't be asked."""

    def __init__(self, settings: Settings, inspection: Inspection, manifest: dict[str, Any]) -> None:
        self._settings = settings
        self._inspection = inspection
        self._manifest = manifest

    async def clock(self) -> Verdict:
        try:
            ahead_s = (await self._inspection.fetch_skew()).total_seconds()
        except RetryAt as error:
            return failed(str(error), "look at GITHUB_API_URL, and at this machine's way to it")
        text = f"{abs(ahead_s):.0f} s {'behind' if ahead_s > 0 else 'ahead of'} GitHub's"
        cure = "set this machine's time, and keep it with NTP"
        if abs(ahead_s) > MAX_SKEW_S:
            return failed(f"this machine's clock is {text}: GitHub refuses what it signs", cure)
        if abs(ahead_s) > SMALL_SKEW_S:
            return warning(f"this machine's clock is {text}", cure)
        return ok("within seconds of GitHub's")

    async def credentials(self) -> Verdict:
        settings = self._settings
        try:
            app = await self._inspection.fetch_app()
        except (Denied, Gone) as error:
            return self._refused(str(error))
        if app.id != settings.github_app_id:
            return failed(
                f"GitHub says this is App {app.id}, not {settings.github_app_id}", "set GITHUB_APP_ID"
            )
        owner = f" of {app.owner.login}" if app.owner else ""
        return ok(f"{app.slug} (id {app.id}){owner} at {settings.github_url}")

    def _refused(self, said: str) -> Verdict:
        settings = self._settings
        app_id = settings.github_app_id
        if "could not be decoded" in said:
            return failed(
                f"GITHUB_APP_PRIVATE_KEY is no key of App {app_id}: it belongs to another App, or was deleted",
                "make a new key in the App's settings, or set the GITHUB_APP_ID that the key belongs to",
            )
        if "ntegration not found" in said:
            return failed(
                f"there is no App {app_id} at {settings.github_api_url}",
                "set GITHUB_APP_ID; on GitHub Enterprise Server set GITHUB_API_URL and GITHUB_URL too",
            )
        return failed(said, "look at the App's settings, or register it again with `issuewright register`")

    async def permissions(self) -> Verdict:
        """What the App was registered with, against app.yml."""
        app = await fetch_known_app(self._inspection)
        page = settings_page(self._settings, app)
        missing = lacking(self._manifest["default_permissions"], app.permissions)
        unsent = sorted(set(self._manifest["default_events"]) - set(app.events))
        findings = []
        if missing:
            findings.append(failed(f"the App lacks {', '.join(missing)}", f"grant it at {page}/permissions"))
        if unsent:
            findings.append(
                failed(f"the App gets no {', '.join(unsent)} events", f"subscribe at {page}/permissions")
            )
        more = lacking(app.permissions, self._manifest["default_permissions"])
        if more:
            findings.append(
                warning(
                    f"the App may do more than it needs: {', '.join(more)}",
                    f"take it away at {page}/permissions",
                )
            )
        return worst(findings) if findings else ok("the App has what app.yml asks for, and no more")

    async def installations(self) -> Verdict:
        """What each owner has granted: changes wait until somebody there accepts them."""
        app = await fetch_known_app(self._inspection)
        installations = await self._inspection.fetch_installations()
        if not installations:
            page = app.html_url or f"{self._settings.github_url}/apps/{app.slug}"
            return warning("installed nowhere yet", f"install it at {page}/installations/new")
        return worst([self._installation(one) for one in installations])

    def _installation(self, installation: InstallationSeen) -> Verdict:
        name = installation.account.login if installation.account else str(installation.id)
        if installation.suspended_at is not None:
            return warning(f"{name} has suspended the App", f"unsuspend it at {installation.html_url}")
        missing: Sequence[str] = lacking(self._manifest["default_permissions"], installation.permissions)
        if missing:
            return failed(
                f"{name} has not granted {', '.join(missing)}", f"accept it at {installation.html_url}"
            )
        return ok(name)


async def fetch_known_app(inspection: Inspection) -> AppSeen:
    """For checks that can say nothing when the credentials are refused; why they are, their own check says."""
    try:
        return await inspection.fetch_app()
    except (Denied, Gone):
        raise Denied("GitHub tells nothing to credentials that it refuses", reason="credentials") from None


def settings_page(settings: Settings, app: AppSeen) -> str:
    """Where the App's owner changes it."""
    of_organization = app.owner is not None and app.owner.type == "Organization"
    scope = f"/organizations/{app.owner.login}" if app.owner and of_organization else ""
    return f"{settings.github_url}{scope}/settings/apps/{app.slug}"
