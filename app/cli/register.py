"""`issuewright register`: makes the GitHub App in a browser and keeps its credentials."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from app.cli.options import ConfigOption, load

if TYPE_CHECKING:
    from pathlib import Path

    from app.cli.register_page import Offer, RegistrationServer
    from app.domain.errors import IssuewrightError
    from app.github.manifest import RegisteredApp
    from app.settings import Settings

_ORGANIZATION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,99})")
WAIT_S = 900
"""For a person to sign in, read and agree. GitHub's code lasts an hour."""


def register(  # noqa: PLR0913 - a command's parameters are its options
    org: Annotated[
        str | None,
        typer.Option(metavar="ORG", help="Make the App in this organization instead of your own account."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The App's name; GitHub wants one that no other App has.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address of the page that is opened in a browser.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of that page; 0 takes a free one.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the App that is stored already; a copy is kept.")
    ] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the page's address.")] = False,
    timeout_s: Annotated[
        int,
        typer.Option(
            "--timeout", min=1, max=86_400, metavar="SECONDS", help="How long to wait for the browser."
        ),
    ] = WAIT_S,
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was made as one JSON object.")] = False,
) -> None:
    """Register the GitHub App.

    Opens a page that takes you to GitHub, where you create the App with the permissions and events of app.yml. Its id,
    key and webhook secret are stored in ISSUEWRIGHT_HOME. PUBLIC_URL must say where GitHub will reach this app; for
    GitHub Enterprise Server set GITHUB_URL and GITHUB_API_URL.
    """
    settings = load(config)
    _check_name(org, name)
    public_url = _public_url(settings)
    home = _prepared_home(settings, replace=force)
    registration = _Registration(settings, home, replace=force)
    with _server(host, port) as server:
        offer = _offer(settings, org, name, public_url, server)
        with server.serving(offer, registration.take):
            _invite(server, wanted=not (no_browser or as_json))
            reason = _await_browser(server, timeout_s)
    if registration.made is None:
        raise server.problem or _not_registered(reason)
    _tell(registration.made, load(config), as_json=as_json)


class Made(NamedTuple):
    """`backup` is where an older App's file was kept."""

    app: RegisteredApp
    backup: Path | None


class _Registration:
    """Takes GitHub's code, in a thread of the page's server."""

    def __init__(self, settings: Settings, home: Path, *, replace: bool) -> None:
        self._settings = settings
        self._home = home
        self._replace = replace
        self.made: Made | None = None

    def take(self, code: str) -> str:
        """Raises IssuewrightError."""
        from app.github.manifest import exchange_code, is_code

        if not is_code(code):
            raise _not_registered("GitHub sent no code; run the command again")
        app = asyncio.run(exchange_code(self._settings.github_api_url, code))
        try:
            self.made = Made(app, self._store(app))
        except OSError as error:
            raise _not_registered(
                f"GitHub made the App {app.slug}, but its key can't be stored in {self._home} ({error.strerror}): "
                f"delete the App at {app.html_url}, then run the command again"
            ) from None
        return f"The App {app.slug} is registered, and its key is stored. Go on in the terminal."

    def _store(self, app: RegisteredApp) -> Path | None:
        from app.cli.register_store import store_app

        settings = self._settings
        values = {
            "github_app_id": app.id,
            "github_app_slug": app.slug,
            "github_webhook_secret": app.webhook_secret,
            "github_app_private_key": app.pem,
            "github_url": settings.github_url,
            "github_api_url": settings.github_api_url,
        }
        return store_app(self._home, values, replace=self._replace)


def _not_registered(reason: str) -> IssuewrightError:
    from app.domain.errors import IssuewrightError

    return IssuewrightError(reason)


def _check_name(org: str | None, name: str | None) -> None:
    from app.github.manifest import MAX_NAME

    if org is not None and not _ORGANIZATION.fullmatch(org):
        raise typer.BadParameter(f"{org!r} is no organization's name", param_hint="--org")
    if name is not None and not 1 <= len(name.strip()) <= MAX_NAME:
        raise typer.BadParameter(f"1 to {MAX_NAME} characters, please", param_hint="--name")


def _public_url(settings: Settings) -> str:
    """Where GitHub will send webhooks. Raises SettingsError."""
    from app.cli.preflight import require_one_github, require_reachable

    require_one_github(settings)
    return require_reachable(settings)


def _prepared_home(settings: Settings, *, replace: bool) -> Path:
    """Everything that could fail after GitHub has made the App is tried before."""
    from app.cli.register_store import find_stored
    from app.domain.errors import SettingsError
    from app.settings import REGISTERED_FILE, ensure_home

    home = ensure_home(settings)
    stored = find_stored(home)
    if stored is not None and not replace:
        raise SettingsError(
            f"ISSUEWRIGHT_HOME: {home / REGISTERED_FILE} holds {stored}; use it, or replace it with --force"
        )
    return home


def _server(host: str, port: int) -> RegistrationServer:
    from app.cli.register_page import RegistrationServer
    from app.domain.errors import SettingsError

    try:
        return RegistrationServer(host, port)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SettingsError(
            f"--host {host} --port {port}: can't listen there ({reason}); give others"
        ) from None


def _offer(
    settings: Settings, org: str | None, name: str | None, public_url: str, server: RegistrationServer
) -> Offer:
    from app.cli.register_page import CALLBACK, Offer
    from app.github.manifest import build_manifest, form_url

    manifest = build_manifest(name, public_url, server.base_url + CALLBACK)
    return Offer(
        form_url=form_url(settings.github_url, org, server.state),
        manifest=json.dumps(manifest),
        webhook_url=manifest["hook_attributes"]["url"],
    )


def _invite(server: RegistrationServer, *, wanted: bool) -> None:
    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    say(f"Open this page in a browser and follow it:\n  {server.entry_url}")
    port = server.server_address[1]
    say(f"(From another machine, forward the port first: ssh -L {port}:127.0.0.1:{port} THIS-MACHINE)")
    if wanted and sys.stdout.isatty():
        _open_browser(server.entry_url)


def _open_browser(url: str) -> None:
    """Not one that would take over the terminal."""
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    if type(browser) is not webbrowser.GenericBrowser:
        browser.open(url)


def _await_browser(server: RegistrationServer, timeout_s: int) -> str:
    """Returns once GitHub's code was taken, after `timeout_s` or on Ctrl-C: why there is no App, if there is none."""
    try:
        server.ended.wait(timeout_s)
    except KeyboardInterrupt:
        return "stopped: no App was registered"
    return f"nobody registered the App within {timeout_s} s; run the command again"


def _tell(made: Made, now: Settings, *, as_json: bool) -> None:
    """`now` are the settings as the next command will see them."""
    from app.settings import REGISTERED_FILE

    app, backup = made
    install_url = _install_url(app, now)
    stored = now.issuewright_home / REGISTERED_FILE
    overridden = _overridden(app, now)
    for name in overridden:
        print(f"{name} is set elsewhere and wins over what was stored: remove it there", file=sys.stderr)
    if as_json:
        shown: dict[str, Any] = {"app_id": app.id, "slug": app.slug, "install_url": install_url}
        shown |= {"stored": str(stored), "overridden": overridden, "backup": str(backup) if backup else None}
        print(json.dumps(shown, indent=2))
        return
    print(f"Registered  {app.slug} (id {app.id})")
    print(f"Stored      {stored}")
    if backup:
        print(f"Kept        {backup} (the App before)")
    print("Next        issuewright up, then issuewright doctor")
    print(f"Install     {install_url} (once it is up)")


def _install_url(app: RegisteredApp, settings: Settings) -> str:
    """By GitHub's own address of the App, which GitHub Enterprise Server has elsewhere than github.com."""
    page = app.html_url if app.html_url.startswith(f"{settings.github_url}/") else ""
    return f"{page or f'{settings.github_url}/apps/{app.slug}'}/installations/new"


def _overridden(app: RegisteredApp, now: Settings) -> list[str]:
    key, secret = now.github_app_private_key, now.github_webhook_secret
    pairs = (
        ("GITHUB_APP_ID", now.github_app_id == app.id),
        ("GITHUB_APP_PRIVATE_KEY", key is not None and key.get_secret_value() == app.pem),
        ("GITHUB_WEBHOOK_SECRET", secret is not None and secret.get_secret_value() == app.webhook_secret),
    )
    return [name for name, same in pairs if not same]
