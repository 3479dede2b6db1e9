"""What commands make sure of before they start, beside each setting by itself."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from app.domain.errors import Denied, SettingsError
from app.settings import Settings, require_github


def require_app(settings: Settings) -> None:
    """For commands that speak as the App. Raises SettingsError: something is missing, or the key can't be used."""
    require_github(settings)
    require_one_github(settings)
    require_key(settings)


def require_key(settings: Settings) -> None:
    """Raises SettingsError: the App's key can't be used."""
    from app.github.access import load_private_key

    try:
        load_private_key(settings.private_key_pem or "")
    except Denied as error:
        raise SettingsError(
            f"GITHUB_APP_PRIVATE_KEY: {error}; use the .pem file GitHub gave you, whole and unencrypted"
        ) from None


def require_one_github(settings: Settings) -> None:
    """The two addresses must be of one GitHub. Raises SettingsError naming the one that was forgotten."""
    has_own_web = settings.github_url != Settings.model_fields["github_url"].default
    has_own_api = settings.github_api_url != Settings.model_fields["github_api_url"].default
    if has_own_web and not has_own_api:
        raise SettingsError(
            f"GITHUB_API_URL: not set, but GITHUB_URL is; usually {settings.github_url}/api/v3"
        )
    if has_own_api and not has_own_web:
        raise SettingsError("GITHUB_URL: not set, but GITHUB_API_URL is; set both to the same server")


def require_free_port(settings: Settings) -> None:
    """Said before anything starts or is loaded; the server binds it for real. Raises SettingsError."""
    from app.web.sockets import bind_tcp

    bind_tcp(settings.host, settings.port).close()


def require_reachable(settings: Settings) -> str:
    """The base URL that GitHub can send webhooks to: PUBLIC_URL, by HTTPS and not on this machine, unless GitHub itself
    is on this machine. Raises SettingsError.
    """
    if is_loopback(settings.github_url):
        return settings.base_url
    url = settings.public_url
    if url is None:
        raise SettingsError("PUBLIC_URL: not set; give the https:// address at which GitHub reaches this app")
    if is_loopback(url):
        raise SettingsError(
            f"PUBLIC_URL: GitHub can't reach {url}, which is this machine only; give an https:// address for it"
        )
    if not url.startswith("https://"):
        raise SettingsError(f"PUBLIC_URL: {url} is not https://, and webhooks must not travel in the clear")
    return url


def is_loopback(url: str) -> bool:
    """Whether a URL's host is this machine."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified
