"""`/openapi.json`: FastAPI's own description with what it can't know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI

_MODEL_SCHEME = {
    "type": "apiKey",
    "in": "header",
    "name": "x-api-key",
    "description": "The sandbox's token, where the Messages API has its key.",
}


_DEFAULT_422 = {"$ref": "#/components/schemas/HTTPValidationError"}


def describe(app: FastAPI, raw_paths: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds the `raw_paths`, which FastAPI does not serve, and the security scheme of routes that read their token
    themselves, and takes out the 422 that FastAPI puts into every route with parameters: where ours can answer 422, its
    route says so.
    """
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        schema = plain()
        schema["paths"].update(raw_paths)
        components = schema.setdefault("components", {})
        components.setdefault("securitySchemes", {})["modelToken"] = _MODEL_SCHEME
        for operations in schema["paths"].values():
            for operation in operations.values():
                default = operation["responses"].get("422", {}).get("content", {}).get("application/json", {})
                if default.get("schema") == _DEFAULT_422:
                    del operation["responses"]["422"]
        for name in ("HTTPValidationError", "ValidationError"):
            components.get("schemas", {}).pop(name, None)
        return schema

    app.openapi = openapi  # type: ignore[method-assign]
