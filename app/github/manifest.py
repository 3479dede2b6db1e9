"""Registering an App from a manifest: GitHub shows the manifest to a person, who creates the App with one click.

The steps are GitHub's ("Registering a GitHub App from a manifest"): a form posts the manifest, GitHub sends the
browser back with a code, and the code is exchanged once, within the hour, for the App's id, key and secret.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import yaml

from app.domain.errors import Gone, OutsideError, RetryAt, Unexpected
from app.domain.paths import WEBHOOK_PATH
from app.github.answers import parse_answer
from app.github.errors import SERVER_PAUSE, classify_response

MAX_NAME = 34
"""Characters of an App's name, by GitHub's form."""

_MANIFEST = Path(__file__).resolve().parents[1] / "app.yml"
"""A link to the file at the top of the tree; a wheel holds the file itself."""
_CODE = re.compile(r"[A-Za-z0-9_-]{1,200}")
_TIMEOUT = httpx.Timeout(10, connect=5)
_TRIES = 3
_PAUSE_S = 0.5


@dataclass(frozen=True)
class RegisteredApp:
    """What GitHub gives out once for a new App."""

    id: int
    slug: str
    html_url: str
    pem: str = field(repr=False)
    webhook_secret: str = field(repr=False)


def load_manifest() -> dict[str, Any]:
    """`app.yml`: the only list of the App's permissions and events."""
    loaded: dict[str, Any] = yaml.safe_load(_MANIFEST.read_text())
    return loaded


def build_manifest(name: str | None, public_url: str, redirect_url: str) -> dict[str, Any]:
    """`app.yml` with the addresses of this instance. `redirect_url` is where GitHub sends the browser afterwards."""
    manifest = load_manifest()
    return manifest | {
        "name": name or manifest["name"],
        "url": public_url,
        "hook_attributes": {"url": public_url + WEBHOOK_PATH, "active": True},
        "redirect_url": redirect_url,
    }


def form_url(web_url: str, organization: str | None, state: str) -> str:
    """Where the manifest is posted. `web_url` is GitHub's, `state` comes back with the code."""
    scope = f"/organizations/{quote(organization, safe='')}" if organization else ""
    return f"{web_url}{scope}/settings/apps/new?{urlencode({'state': state})}"


def is_code(text: str) -> bool:
    """Whether it looks like what GitHub sends; anybody may call the address it sends it to."""
    return _CODE.fullmatch(text) is not None


async def exchange_code(api_url: str, code: str) -> RegisteredApp:
    """The credentials behind a code, which then is used up.

    Tried again only when GitHub did not take the request. Raises OutsideError: Gone for a code that was used or is
    older than an hour.
    """
    url = f"{api_url}/app-manifests/{quote(code, safe='')}/conversions"
    headers = {"Accept": "application/vnd.github+json", "User-Agent": "issuewright"}
    async with httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False, follow_redirects=False) as client:
        tries = 1
        while True:
            try:
                return await _exchange(client, url, headers)
            except RetryAt:
                if tries == _TRIES:
                    raise
            tries += 1
            await asyncio.sleep(_PAUSE_S)


async def _exchange(client: httpx.AsyncClient, url: str, headers: Mapping[str, str]) -> RegisteredApp:
    now = datetime.now(UTC)
    try:
        response = await client.post(url, headers=dict(headers))
    except httpx.HTTPError as error:
        raise RetryAt(f"GitHub can't be reached: {type(error).__name__}", now + SERVER_PAUSE) from None
    if not response.is_success:
        raise _told(classify_response(response, now))
    app = parse_answer(RegisteredApp, response)
    if app.id < 1 or "PRIVATE KEY-----" not in app.pem or not app.webhook_secret or not app.slug:
        raise Unexpected("GitHub's answer holds no App with key and webhook secret")
    return app


def _told(error: OutsideError) -> OutsideError:
    if isinstance(error, Gone):
        return Gone(f"{error}: the code was used already or is older than an hour; run the command again")
    return error
