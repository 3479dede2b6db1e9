"""Whether GitHub's webhooks arrive here: here in this very instance, and from GitHub, not only from this machine."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import uuid
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import httpx
from sqlalchemy.exc import SQLAlchemyError

from app.cli.doctor.github import fetch_known_app, settings_page
from app.cli.doctor.verdict import State, Verdict, failed, ok, warning, worst
from app.cli.preflight import require_reachable
from app.db.deliveries import find_delivery
from app.db.engine import Database
from app.db.processes import list_processes
from app.db.schema import schema_state
from app.domain.errors import OutsideError
from app.domain.ids import DeliveryId
from app.domain.paths import WEBHOOK_PATH
from app.github.inspection import DeliverySeen, Inspection
from app.settings import Settings

LIMIT_S = 30.0
_HERE_TIMEOUT = httpx.Timeout(5)
_RECENT = timedelta(minutes=10)
_BEAT = timedelta(seconds=60)
"""Web processes write a sign of life every ten seconds."""
_WAIT_S = 12.0
"""GitHub gives a receiver ten seconds."""
_LOOK_S = 0.5
_START = "run `issuewright up`, then this again"


class WebhookChecks:
    """Methods raise OutsideError when GitHub can't be asked, SettingsError for an address it can't reach."""

    def __init__(self, settings: Settings, inspection: Inspection) -> None:
        self._settings = settings
        self._inspection = inspection

    async def address(self) -> Verdict:
        """Where GitHub sends, against where it should."""
        expected = require_reachable(self._settings) + WEBHOOK_PATH
        app = await fetch_known_app(self._inspection)
        hook = await self._inspection.fetch_hook()
        cure = f"change it at {settings_page(self._settings, app)}"
        findings = []
        if hook.url != expected:
            there = hook.url or "nowhere"
            findings.append(failed(f"GitHub sends to {there}, PUBLIC_URL says {expected}", cure))
        if hook.content_type != "json":
            findings.append(failed(f"GitHub sends {hook.content_type}, not JSON", cure))
        if not hook.secret:
            findings.append(failed("GitHub signs nothing: the App's webhook has no secret", cure))
        if expected.startswith("https://") and str(hook.insecure_ssl) != "0":
            findings.append(warning("GitHub does not check the certificate of PUBLIC_URL", cure))
        return worst(findings) if findings else ok(f"GitHub sends to {hook.url}")

    async def arrival(self) -> Verdict:
        """A signed ping of our own must end up in our own database; then GitHub is asked to send something."""
        url = require_reachable(self._settings) + WEBHOOK_PATH
        runs = await self._web_runs()
        here = await self._try_from_here(url)
        if here.state is State.FAILED and runs is False:
            return warning(f"no web process runs yet ({here.detail})", _START)
        from_github = await self._try_from_github()
        if here.state is State.FAILED and from_github.state is State.OK:
            # Some networks don't let a machine reach its own public address.
            return warning(f"{from_github.detail}, but not from this machine: {here.detail}")
        return worst([here, from_github])

    # ------------------------------------------------------------ from here

    async def _try_from_here(self, url: str) -> Verdict:
        guid = str(uuid.uuid4())
        body = json.dumps({"zen": "Sent by issuewright doctor.", "hook_id": 0}).encode()
        try:
            async with httpx.AsyncClient(timeout=_HERE_TIMEOUT, trust_env=False) as client:
                answer = await client.post(url, content=body, headers=self._headers(guid, body))
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            return failed(
                f"{url} can't be reached: {reason}", "look at the proxy in front of HOST:PORT, and at DNS"
            )
        if answer.status_code == 401:
            return failed(
                f"{url} refuses our signature: another instance, or one started with another secret",
                "restart it, or point PUBLIC_URL to this instance",
            )
        if answer.status_code != 202:
            return failed(f"{url} answered {answer.status_code}", "look at the proxy in front of HOST:PORT")
        return await self._is_ours(url, guid)

    async def _is_ours(self, url: str, guid: str) -> Verdict:
        database = Database(self._settings.database)
        try:
            async with database.read() as session:
                found = await find_delivery(session, DeliveryId(guid))
        finally:
            await database.aclose()
        if found is None:
            return failed(
                f"{url} is another instance: what it took in is not in this database",
                "set DATABASE_URL or PUBLIC_URL",
            )
        return ok(f"{url} is this instance")

    def _headers(self, guid: str, body: bytes) -> dict[str, str]:
        secret = next(iter(self._settings.webhook_secrets), b"")
        return {
            "Content-Type": "application/json",
            "User-Agent": "issuewright-doctor",
            "X-GitHub-Event": "ping",
            "X-GitHub-Delivery": guid,
            "X-Hub-Signature-256": "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest(),
        }

    async def _web_runs(self) -> bool | None:
        """Whether a web process has been heard of in the last minute; None when the database can't tell."""
        try:
            if await schema_state(self._settings.database) == "empty":
                return False
            async with aclosing(Database(self._settings.database)) as database, database.read() as session:
                beats = await list_processes(session, datetime.now(UTC) - _BEAT)
        except (SQLAlchemyError, OSError):
            return None
        return any(one.kind == "web" for one in beats)

    # ------------------------------------------------------------ from GitHub

    async def _try_from_github(self) -> Verdict:
        seen = await self._inspection.fetch_deliveries()
        if not seen:
            return warning(
                "GitHub has sent nothing in the last days, so there is nothing it could send again"
            )
        newest = seen[0]
        ahead = await self._inspection.fetch_skew()
        if newest.arrived and datetime.now(UTC) + ahead - newest.at < _RECENT:
            return ok("GitHub's deliveries arrive")
        try:
            await self._inspection.ensure_sent_again(newest)
        except OutsideError as error:
            return warning(f"GitHub would not send anything again: {error}")
        again = await self._await_attempt(newest, {one.id for one in seen})
        if again is None:
            return warning("GitHub has not sent again what it was asked to", "run this again in a minute")
        return self._judge(again)

    async def _await_attempt(self, delivery: DeliverySeen, known: set[int]) -> DeliverySeen | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _WAIT_S
        while loop.time() < until:
            await asyncio.sleep(_LOOK_S)
            for one in await self._inspection.fetch_deliveries():
                if one.guid == delivery.guid and one.id not in known:
                    return one
        return None

    def _judge(self, attempt: DeliverySeen) -> Verdict:
        if attempt.arrived:
            return ok("GitHub's deliveries arrive")
        if attempt.status_code == 401:
            return failed(
                "GitHub signs with another secret than GITHUB_WEBHOOK_SECRET",
                "set the App's webhook secret anew, here and there",
            )
        answered = f"HTTP {attempt.status_code}" if attempt.status_code else attempt.status
        return failed(f"GitHub's deliveries do not arrive: {answered}", "open PUBLIC_URL to GitHub's hooks")
