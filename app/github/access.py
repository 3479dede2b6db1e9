"""Where GitHub is and who we are there: the gateway's settings, and the App's signature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from urllib.parse import urlsplit

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from app.domain.errors import Denied

Clock = Callable[[], datetime]
"""The time now, aware UTC."""

_BACKDATED = timedelta(seconds=60)
_LIFETIME = timedelta(minutes=8)
"""GitHub refuses more than ten minutes ahead of *its* clock; two of them are left for a clock of ours that is fast."""

_NEWEST_VERSION = "2026-03-10"
_SERVER_VERSION = "2022-11-28"
"""What GitHub Enterprise Server and compatible servers know."""


@dataclass(frozen=True)
class GitHubAccess:
    """One GitHub and one App on it. `api_url` is the REST base, `web_url` the base of pages and git."""

    api_url: str
    web_url: str
    app_id: int
    private_key_pem: str = field(repr=False)
    slug: str | None = None
    patience_s: float = 20
    """For one call with all its retries: well below a step's minute, also when an answer trickles."""

    @property
    def host(self) -> str:
        """Scheme, host and port of the API: the only place that may see a token."""
        parts = urlsplit(self.api_url)
        return f"{parts.scheme}://{parts.netloc}".lower()

    @property
    def api_version(self) -> str:
        is_github_com = urlsplit(self.api_url).hostname == "api.github.com"
        return _NEWEST_VERSION if is_github_com else _SERVER_VERSION

    @property
    def graphql_url(self) -> str:
        """`/api/graphql` beside `/api/v3` on GitHub Enterprise Server, else below the REST base."""
        base = self.api_url.rstrip("/")
        return base.removesuffix("/v3") + "/graphql" if base.endswith("/api/v3") else base + "/graphql"

    def git_url(self, full_name: str) -> str:
        return f"{self.web_url.rstrip('/')}/{full_name}.git"


class AppSigner:
    """Signs as the App. The key is parsed once, because parsing takes fifty times as long as signing."""

    def __init__(self, access: GitHubAccess, clock: Clock) -> None:
        self._access = access
        self._clock = clock

    @cached_property
    def _key(self) -> RSAPrivateKey:
        return load_private_key(self._access.private_key_pem)

    def sign(self) -> str:
        """A JWT for the App's own routes. Raises Denied when the key is unusable."""
        now = self._clock()
        claims = {"iss": str(self._access.app_id), "iat": now - _BACKDATED, "exp": now + _LIFETIME}
        return jwt.encode(claims, self._key, algorithm="RS256")


@lru_cache(maxsize=4)
def load_private_key(pem: str) -> RSAPrivateKey:
    """The App's key from its PEM text, kept because parsing is slow. Raises Denied (`credentials`) for what is none."""
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Without the cause: its text could quote the key.
        raise Denied("the App's private key can't be read", reason="credentials") from None
    if not isinstance(key, RSAPrivateKey):
        raise Denied("the App's private key is not an RSA key", reason="credentials")
    return key
