"""What GitHub says about the deliveries it sent to the App's webhook, and asking for one again.

https://docs.github.com/en/rest/apps/webhooks: the last three days, newest first; a redelivery is an entry of its own
under the same GUID. Both routes are the App's own: no installation's limits apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from app.domain.errors import Gone
from app.domain.ports import HookDelivery, HookPage
from app.github.answers import parse_entries, parse_time
from app.github.clients import Ask
from app.github.family import Family
from app.github.parts import Id

_PATH = "/app/hook/deliveries"
_PER_PAGE = 100


@dataclass(frozen=True)
class _Entry:
    id: Id
    guid: str
    delivered_at: str
    status_code: int = 0
    redelivery: bool = False


class HookDeliveries(Family):
    async def fetch_hook_deliveries(self, cursor: str | None) -> HookPage:
        """One page of the listing, from `cursor` on (None: the newest)."""
        params: dict[str, str | int] = {"per_page": _PER_PAGE}
        if cursor is not None:
            params["cursor"] = cursor
        response = await self._api.call(Ask("GET", _PATH, params=params))
        entries = tuple(_delivery(entry) for entry in parse_entries(_Entry, response, None))
        following = response.links.get("next", {}).get("url", "")
        return HookPage(entries, next(iter(parse_qs(urlsplit(following).query).get("cursor", [])), None))

    async def ensure_redelivered(self, delivery_id: int) -> None:
        """Ask for one more attempt; one that GitHub no longer keeps is let go."""
        try:
            await self._api.call(Ask("POST", f"{_PATH}/{delivery_id}/attempts"))
        except Gone:
            return


def _delivery(entry: _Entry) -> HookDelivery:
    return HookDelivery(
        delivery_id=entry.id,
        guid=entry.guid,
        delivered_at=parse_time(entry.delivered_at),
        status_code=entry.status_code,
        redelivery=entry.redelivery,
    )
