"""The manifest flow: a form makes an App and a code, the code is exchanged once for its credentials."""

import json
import secrets
from typing import Any
from urllib.parse import urlencode, urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from simulators.github.actions.setup import create_app
from simulators.github.errors import not_found
from simulators.github.model import App, User
from simulators.github.platform import Platform
from simulators.github.rest.routing import Call, Json, created, route
from simulators.github.shapes.accounts import app_json


def new_key_pair() -> tuple[str, str]:
    """A private key (PKCS#1 PEM, as GitHub gives out) and its public half."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private.decode(), public.decode()


def app_from_manifest(platform: Platform, owner: User, manifest: dict[str, Any]) -> App:
    """Registers what a manifest describes; ValueError when ``url`` or the hook's URL is missing."""
    hook = manifest.get("hook_attributes") or {}
    if not isinstance(manifest.get("url"), str) or (hook and not hook.get("url")):
        raise ValueError("the manifest needs url, and hook_attributes a url")
    private, public = new_key_pair()
    events = [str(event) for event in manifest.get("default_events", [])]
    name = str(manifest.get("name") or f"{owner.login}-app-{secrets.token_hex(2)}")
    app = create_app(platform, name, owner, public, manifest.get("default_permissions") or {}, events)
    app.private_key_pem, app.external_url = private, manifest["url"]
    app.webhook_url, app.webhook_active = hook.get("url"), hook.get("active", True)
    app.webhook_secret, app.description = secrets.token_hex(20), manifest.get("description")
    return app


def submit_manifest(platform: Platform, owner: User, text: str, state: str | None) -> str:
    """What the web form does: registers the App and answers the address to send the browser to.

    ValueError when the manifest is no JSON object or lacks what it needs.
    """
    manifest = json.loads(text)
    if not isinstance(manifest, dict):
        raise ValueError("the manifest is not an object")  # noqa: TRY004  (as for other wrong texts)
    target = str(manifest.get("redirect_url") or "")
    if urlsplit(target).scheme not in ("http", "https"):
        raise ValueError("the manifest needs redirect_url")
    app = app_from_manifest(platform, owner, manifest)
    if app.webhook_url and app.webhook_active:
        platform.ping(app)
    code = secrets.token_hex(20)
    platform.world.manifest_codes[code] = app.id
    query = urlencode({"code": code, **({"state": state} if state else {})})
    return f"{target}{'&' if '?' in target else '?'}{query}"


@route("POST", "/app-manifests/{code}/conversions", caller="anyone")
def convert(call: Call) -> Json:
    """Gives the App's credentials for a code, once."""
    app_id = call.world.manifest_codes.pop(call.params["code"], None)
    if app_id is None:
        raise not_found()
    app = call.world.apps[app_id]
    return created(
        {
            **app_json(call.world, app),
            "client_secret": app.client_secret,
            "webhook_secret": app.webhook_secret,
            "pem": app.private_key_pem,
        }
    )
