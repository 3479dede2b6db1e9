"""Whose key a run uses: of the person who labeled, else of the installation, else the operator's settings. Pure."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

MAX_SECRET = 4096
_HINTED_FROM = 20
"""Characters of a secret from which its last four may be shown; of a shorter one they would be too much of it."""
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
_METADATA = frozenset({"100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"})
"""Where clouds tell a machine its secrets, beside the link-local range."""
_NAME = re.compile(
    r"(?=.{1,253}\Z)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?\.?"
)
"""A host's name; its last part begins with a letter, so no number in disguise passes for one."""


class CredentialKind(StrEnum):
    MODEL = "model"
    """Key of the model's API, with the base URL that it is good for."""
    DAYTONA = "daytona"
    """Key of a Daytona account, with the address of that Daytona's API."""


class CredentialScope(StrEnum):
    """Whose it is, nearest first. What is in the settings is the operator's and stored nowhere."""

    USER = "user"
    INSTALLATION = "installation"
    OPERATOR = "operator"


@dataclass(frozen=True)
class CredentialPlace:
    """Where a stored credential stands: one of a kind for each person (numeric user id) and each installation."""

    scope: CredentialScope
    owner_id: int
    kind: CredentialKind

    @property
    def words(self) -> str:
        return f"{self.kind} key of {self.scope} {self.owner_id}"

    @property
    def option(self) -> str:
        """As the command line names its owner."""
        return f"--{self.scope} {self.owner_id}"


@dataclass(frozen=True)
class Credential:
    """A key that may be used now. `base_url` None: where the settings say."""

    scope: CredentialScope
    secret: str = field(repr=False)
    base_url: str | None = None


class BadCredential(ValueError):
    """What was given can't be a credential; the text says why and never repeats it."""


def check_secret(text: str) -> str:
    """The secret without the line end it was piped in with. Raises BadCredential."""
    secret = text.strip()
    if not secret:
        raise BadCredential("nothing came in on standard input; pipe the key in")
    if len(secret) > MAX_SECRET:
        raise BadCredential(f"longer than {MAX_SECRET} characters: that is no key")
    if not all("!" <= char <= "~" for char in secret):
        raise BadCredential("a key is one word of plain ASCII characters, without spaces or line ends")
    return secret


def secret_hint(secret: str) -> str:
    """What may be shown of it, so that people know which one it is: the last four characters of a long one."""
    return f"…{secret[-4:]}" if len(secret) >= _HINTED_FROM else "…"


def check_base_url(text: str) -> str:
    """An address that a key may be sent to: https, or http on this machine, and none where a cloud keeps a machine's own
    secrets. Raises BadCredential.

    What a name resolves to is not looked at: by https an address answers only with a certificate for that name, which
    no metadata server has.
    """
    try:
        parts = urlsplit(text)
        port_is_right = parts.port is None or parts.port > 0
    except ValueError:
        raise BadCredential("the base URL is none") from None
    host = (parts.hostname or "").lower()
    if not host or not port_is_right or parts.scheme not in {"http", "https"}:
        raise BadCredential("the base URL must be https://HOST, with a path if need be")
    if parts.username is not None or parts.query or parts.fragment or not text.isprintable() or " " in text:
        raise BadCredential("the base URL must be an address alone, without user, query or fragment")
    address = _address(host)
    if address is None and (not _NAME.fullmatch(host) or host.rstrip(".") in _METADATA_NAMES):
        raise BadCredential("the base URL's host is no name that a key may be sent to")
    if address is not None and _is_forbidden(address):
        raise BadCredential("the base URL is an address that no key may be sent to (link-local or metadata)")
    on_this_machine = host.rstrip(".") == "localhost" or (address is not None and address.is_loopback)
    if parts.scheme == "http" and not on_this_machine:
        raise BadCredential("the base URL must be https://, so that the key does not travel in the clear")
    return text.rstrip("/")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        return address.ipv4_mapped or address.sixtofour or address
    return address


def _is_forbidden(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return (
        address.is_link_local or address.is_unspecified or address.is_multicast
        or (address.is_reserved and not address.is_loopback) or str(address) in _METADATA
    )  # fmt: skip


def account_name(scope: str, owner_id: int) -> str:
    """Whose account at the provider a sandbox is in, as its row says it."""
    return f"{scope} {owner_id}"


def account_place(name: str) -> CredentialPlace:
    """Where the key of that account stands. Raises ValueError."""
    scope, _, owner_id = name.partition(" ")
    return CredentialPlace(CredentialScope(scope), int(owner_id), CredentialKind.DAYTONA)


def key_owner(scope: str | None, login: str) -> str:
    """Whose model key a run uses, for people; empty while none was used. `login`: who set the label, as plain text."""
    if scope == CredentialScope.USER:
        return f"of {login}"
    return f"of the {scope}" if scope else ""
