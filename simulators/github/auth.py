"""Who is calling: App JWTs and installation tokens, checked as GitHub checks them."""

import hashlib
import secrets
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.types import Options

from simulators.github.errors import ApiError
from simulators.github.model import App, Installation, Repository, Token, User
from simulators.github.world import World

TOKEN_LIFETIME = timedelta(hours=1)
CLOCK_LEEWAY_S = 60
MAX_JWT_LIFETIME_S = 600
LEVELS = {"read": 1, "write": 2, "admin": 3}


@dataclass(frozen=True)
class Principal:
    """An authenticated App (``token`` None) or one of its installations."""

    app: App
    installation: Installation | None = None
    token: Token | None = None

    def can(self, need: str) -> bool:
        """Whether the token carries ``permission:level``."""
        name, _, level = need.partition(":")
        held = {"metadata": "read", **(self.token.permissions if self.token else {})}
        return LEVELS.get(held.get(name, ""), 0) >= LEVELS[level]

    def sees(self, repository: Repository, world: World) -> bool:
        """Whether the token reaches a repository."""
        if self.token is None or self.installation is None:
            return False
        if self.token.repo_ids is not None and repository.id not in self.token.repo_ids:
            return False
        return any(found.id == repository.id for found in world.installed_repositories(self.installation))

    def bot(self, world: World) -> User:
        """The account in whose name the App acts."""
        return world.users[self.app.bot_id]

    def describe(self) -> dict[str, Any]:
        """What the request log may know of it: never the token."""
        if self.token is None or self.installation is None:
            return {"kind": "app", "app_id": self.app.id}
        ids = None if self.token.repo_ids is None else sorted(self.token.repo_ids)
        return {
            "kind": "installation",
            "app_id": self.app.id,
            "installation_id": self.installation.id,
            "repository_ids": ids,
            "permissions": dict(self.token.permissions),
        }


@lru_cache(maxsize=64)
def _public_key(pem: str) -> RSAPublicKey:
    key = load_pem_public_key(pem.encode())
    if not isinstance(key, RSAPublicKey):
        raise TypeError("not an RSA public key")
    return key


def digest(token: str) -> str:
    """How tokens are kept."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def bad_credentials() -> ApiError:
    """401 for a token that is unknown, expired or revoked."""
    return ApiError(401, "Bad credentials")


def authenticate(world: World, headers: Mapping[str, str]) -> Principal | None:
    """The caller of a REST or GraphQL route; None without credentials; ApiError 401 with wrong ones."""
    header = headers.get("authorization", "")
    scheme, _, value = header.partition(" ")
    if not header:
        return None
    if scheme.lower() not in ("bearer", "token"):
        raise bad_credentials()
    value = value.strip()
    if value.count(".") == 2 and not value.startswith("ghs_"):
        return Principal(check_jwt(world, value))
    return check_token(world, value)


def basic_token(headers: Mapping[str, str]) -> str | None:
    """The password of Basic authentication, for git; a bearer header is no password."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, _, password = b64decode(value).decode("utf-8", "replace").partition(":")
    except ValueError:
        return None
    return password if user == "x-access-token" else None


def check_token(world: World, value: str) -> Principal:
    """The installation a token stands for; ApiError 401."""
    token = world.tokens.get(digest(value))
    if token is None or token.revoked or token.expires_at <= world.now():
        raise bad_credentials()
    installation = world.installations[token.installation_id]
    app = world.apps.get(installation.app_id)
    if app is None or installation.deleted:
        raise bad_credentials()
    if installation.suspended_at is not None:
        raise ApiError(403, "This installation has been suspended")
    return Principal(app, installation, token)


def check_jwt(world: World, value: str) -> App:
    """The App that signed a JWT; ApiError 401 with GitHub's sentence for what is wrong."""
    undecodable = ApiError(401, "A JSON web token could not be decoded")
    try:
        issuer = jwt.decode(value, options={"verify_signature": False}).get("iss")
    except jwt.InvalidTokenError:
        raise undecodable from None
    app = next((a for a in world.apps.values() if str(issuer) in (str(a.id), a.client_id)), None)
    if app is None:
        raise ApiError(401, "Integration not found")
    # the times are checked below, in GitHub's words
    options = Options(
        verify_exp=False,
        verify_iat=False,
        verify_nbf=False,
        verify_aud=False,
        verify_iss=False,
        verify_sub=False,
    )
    try:
        claims = jwt.decode(value, _public_key(app.public_key_pem), algorithms=["RS256"], options=options)
    except jwt.InvalidTokenError:
        raise undecodable from None
    _check_times(claims, world.clock.jwt_now())
    return app


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    issued, expires = claims.get("iat"), claims.get("exp")
    if not isinstance(expires, int | float) or expires <= now:
        raise ApiError(
            401,
            "'Expiration time' claim ('exp') must be a numeric value representing the future time at which "
            "the assertion expires",
        )
    if not isinstance(issued, int | float) or issued > now + CLOCK_LEEWAY_S:
        raise ApiError(
            401,
            "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
        )
    if (
        expires > now + MAX_JWT_LIFETIME_S + CLOCK_LEEWAY_S
        or expires - issued > MAX_JWT_LIFETIME_S + CLOCK_LEEWAY_S
    ):
        raise ApiError(401, "'Expiration time' claim ('exp') is too far in the future")


def mint_token(
    world: World, installation: Installation, repo_ids: frozenset[int] | None, permissions: Mapping[str, str]
) -> tuple[str, Token]:
    """A new installation token: the text, given out once, and its record."""
    body = secrets.token_urlsafe(world.token_length)
    rest = max(world.token_length - len(f"ghs_{installation.app_id}_") - 36 - 88, 24)
    value = f"ghs_{installation.app_id}_{body[:36]}.{body[36 : 34 + rest]}.{secrets.token_urlsafe(66)}"
    token = Token(installation.id, repo_ids, dict(permissions), world.now() + TOKEN_LIFETIME)
    world.tokens[digest(value)] = token
    return value, token
