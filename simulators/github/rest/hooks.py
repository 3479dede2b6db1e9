"""The App's webhook and its deliveries."""

from typing import Any

from simulators.github.clock import iso
from simulators.github.deliveries import Delivery
from simulators.github.errors import not_found, unprocessable
from simulators.github.rest.routing import Call, Json, Reply, route


@route("GET", "/app/hook/config", caller="app")
def get_config(call: Call) -> Json:
    """Where deliveries go; the secret is masked."""
    app = call.caller.app
    body = {"content_type": "json", "insecure_ssl": "0", "url": app.webhook_url or ""}
    return {**body, "secret": "********"} if app.webhook_secret else body


@route("PATCH", "/app/hook/config", caller="app")
def update_config(call: Call) -> Json:
    """Changes URL or secret."""
    app = call.caller.app
    app.webhook_url = call.text("url", app.webhook_url)
    app.webhook_secret = call.text("secret", app.webhook_secret)
    return get_config(call)


def listed(call: Call) -> list[Delivery]:
    """Deliveries of the App that were attempted, newest first."""
    app_id = call.caller.app.id
    found = [
        one
        for one in call.platform.outbox.deliveries.values()
        if one.app_id == app_id and one.state == "sent"
    ]
    return sorted(found, key=lambda one: one.id, reverse=True)


def delivery_json(delivery: Delivery) -> dict[str, Any]:
    """A delivery as the list shows it."""
    return {
        "id": delivery.id,
        "guid": delivery.guid,
        "delivered_at": iso(delivery.delivered_at or delivery.created_at),
        "redelivery": delivery.redelivery,
        "duration": delivery.duration_s,
        "status": delivery.status,
        "status_code": delivery.status_code,
        "event": delivery.event,
        "action": delivery.action,
        "installation_id": delivery.installation_id,
        "repository_id": delivery.repository_id,
        "throttled_at": None,
    }


@route("GET", "/app/hook/deliveries", caller="app")
def list_deliveries(call: Call) -> Json:
    """Deliveries, newest first, paged by ``cursor``."""
    found = listed(call)
    status = call.query.get("status")
    if status is not None:
        found = [one for one in found if (one.status == "OK") == (status == "success")]
    cursor = call.query.get("cursor")
    if cursor is not None:
        version, _, last = cursor.partition("_")
        if version != "v1" or not last.isdigit():
            raise unprocessable("Invalid cursor")
        found = [one for one in found if one.id < int(last)]
    text = call.query.get("per_page", "30")
    size = min(max(int(text), 1), 100) if text.isdigit() else 30
    if len(found) > size:
        kept = f"&status={status}" if status else ""
        url = f"{call.world.base_url}{call.path}?per_page={size}{kept}&cursor=v1_{found[size - 1].id}"
        call.link = f'<{url}>; rel="next"'
    return [delivery_json(one) for one in found[:size]]


def delivery_of(call: Call) -> Delivery:
    """Delivery ``{delivery_id}`` of the App, or 404."""
    for found in listed(call):
        if found.id == call.number("delivery_id"):
            return found
    raise not_found()


@route("GET", "/app/hook/deliveries/{delivery_id:int}", caller="app")
def get_delivery(call: Call) -> Json:
    """One delivery with what was sent and answered."""
    found = delivery_of(call)
    return {
        **delivery_json(found),
        "url": call.caller.app.webhook_url or "",
        "request": {"headers": found.request_headers, "payload": found.payload},
        "response": {"headers": found.response_headers, "payload": found.response_body},
    }


@route("POST", "/app/hook/deliveries/{delivery_id:int}/attempts", caller="app")
def redeliver(call: Call) -> Reply:
    """A new attempt under the same GUID."""
    call.platform.outbox.redeliver(call.caller.app, delivery_of(call))
    return Reply({}, 202)
