"""The web process's composition root: `create_app(settings)` for any ASGI server, and what `issuewright web` uses."""

from __future__ import annotations

from app.web.composition import PUBLIC_PATHS, build_parts, close, create_app, create_sandbox_app

__all__ = ["PUBLIC_PATHS", "build_parts", "close", "create_app", "create_sandbox_app"]
