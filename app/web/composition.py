"""The web process put together: the public app and the sandboxes' app over the same parts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app import __version__
from app.db.engine import Database
from app.domain.paths import WEBHOOK_PATH
from app.queue.bell import Bell
from app.queue.doorbell import Doorbell
from app.settings import Settings
from app.web import (
    health,
    operator_api,
    operator_sandboxes,
    problems,
    sandbox_api,
    sandbox_artifacts,
)
from app.web.github_webhook import OPERATION, Webhook
from app.web.model_gateway import routes as model_routes
from app.web.openapi import describe
from app.web.parts import Parts

App = TypeVar("App", bound=FastAPI)

PUBLIC_PATHS = frozenset({WEBHOOK_PATH, "/healthz", "/readyz", "/metrics", "/openapi.json"})
"""Everything that answers without a token; the webhook checks a signature instead."""


def build_parts(settings: Settings, redis_url: str | None) -> Parts:
    """The real ones. `redis_url` None: no Redis; sweeps and one-second looks do the work alone."""
    doorbell = Doorbell(redis_url)
    return Parts(
        settings=settings,
        database=Database(settings.database),
        doorbell=doorbell,
        bell=Bell(redis_url),
        redis_ping=doorbell.ping,
    )


class PublicApp(FastAPI):
    """Deliveries go straight to their ASGI app; the route is in the table for everything else (405, the walk over all
    routes).
    """

    def receive_webhooks(self, parts: Parts) -> None:
        self._webhook = Webhook(parts)
        self.router.routes.append(Route(WEBHOOK_PATH, self._webhook, methods=["POST"]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == WEBHOOK_PATH and scope["method"] == "POST":
            await self._webhook(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(settings: Settings, parts: Parts | None = None) -> FastAPI:
    """The public app: webhook, health, sandbox API, model gateway, operator API, `/openapi.json`.

    With `parts` given, their owner closes them; else they are made here (with `settings.redis_url`) and closed with
    the app.
    """
    own = parts is None
    app = _app(PublicApp, parts or build_parts(settings, settings.redis_url), close_parts=own)
    app.router.routes.append(sandbox_api.EVENTS_ROUTE)
    app.include_router(health.router)
    app.receive_webhooks(app.state.parts)
    # Before the sandboxes' own routes: `/sandboxes/health` must not be taken for an id.
    app.include_router(operator_sandboxes.router)
    app.include_router(operator_api.router)
    _include_sandbox_routes(app)
    describe(app, {WEBHOOK_PATH: {"post": OPERATION}})
    return app


def create_sandbox_app(parts: Parts) -> FastAPI:
    """For the gateway's unix socket: what sandboxes need, nothing else. `parts` stay their owner's."""
    app = _app(FastAPI, parts, close_parts=False)
    app.openapi_url = None
    app.router.routes.append(sandbox_api.EVENTS_ROUTE)
    _include_sandbox_routes(app)
    return app


def _include_sandbox_routes(app: FastAPI) -> None:
    app.include_router(sandbox_api.router)
    app.include_router(sandbox_artifacts.router)
    app.include_router(model_routes.router)


def _app(kind: type[App], parts: Parts, *, close_parts: bool) -> App:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        if close_parts:
            await close(parts)

    app = kind(
        title="Issuewright",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.parts = parts
    problems.install(app)
    return app


async def close(parts: Parts) -> None:
    """Ends what `build_parts` made."""
    await parts.aclose()
    for bell in (parts.doorbell, parts.bell):
        if isinstance(bell, Doorbell | Bell):
            await bell.aclose()
    await parts.database.aclose()
