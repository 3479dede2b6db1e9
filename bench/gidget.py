"""The comparison from the field: PyPI's gidgethub on aiohttp, as its documentation shows it. It checks the signature,
parses the event and calls the function registered for it, which does nothing; it stores nothing either.
"""

from __future__ import annotations

import argparse
import os

from aiohttp import web
from gidgethub.routing import Router
from gidgethub.sansio import Event

_SECRET = os.environ.get("GITHUB_WEBHOOK_SECRET", "")
_router = Router()


@_router.register("issues", action="labeled")
async def look_away(event: Event) -> None:
    del event


async def receive(request: web.Request) -> web.Response:
    event = Event.from_http(request.headers, await request.read(), secret=_SECRET)
    await _router.dispatch(event)
    return web.Response(status=202)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    app = web.Application()
    app.router.add_post("/webhooks/github", receive)
    web.run_app(app, host="127.0.0.1", port=parser.parse_args().port, print=None, access_log=None)


if __name__ == "__main__":
    main()
