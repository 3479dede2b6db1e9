"""Every route: who may use it, and whether its description is true."""

from __future__ import annotations

import httpx
import jsonschema
import pytest

from app.main import PUBLIC_PATHS, create_sandbox_app
from tests.web.conftest import OPERATOR, T0, add_sandbox, bearer, event


@pytest.fixture
async def http(world):
    async with world.http(**OPERATOR) as client:
        yield client


async def report(world, sandbox, *events):
    async with world.http(**bearer(sandbox[1])) as client:
        answer = await client.post(f"/api/v1/sandboxes/{sandbox[0]}/events", json={"events": events})
        assert answer.status_code == 200


# ------------------------------------------------------------ every route


def routes(app):
    schema = app.openapi()
    return [(method.upper(), path) for path, methods in schema["paths"].items() for method in methods]


async def test_every_route_then_public_by_list_or_401_without_a_token(world):
    walked = routes(world.app)
    assert len(walked) > 20
    async with world.http() as http:
        for method, path in walked:
            filled = (
                path.replace("{sandbox_id}", "sbx_1").replace("{spec_id}", "spec_1").replace("{task_id}", "t")
            )
            filled = filled.replace("{message_id}", "0" * 32).replace("{name}", "manifest.json")
            answer = await http.request(method, filled, content=b"not json at all")
            if path in PUBLIC_PATHS and path != "/webhooks/github":
                assert answer.status_code == 200, path
            else:
                assert answer.status_code == 401, (method, path, answer.status_code)


async def test_routes_of_the_app_then_all_in_the_description(world):
    described = {path for _, path in routes(world.app)}
    hidden = set()
    for route in _flatten(world.app.routes):
        if route not in described:
            hidden.add(route)
    assert hidden == {"/openapi.json", "/api/v1/sandboxes/{sandbox_id}/model/{path:path}"}


def _flatten(found):
    for route in found:
        if hasattr(route, "path"):
            yield route.path
        else:
            prefix = getattr(getattr(route, "include_context", None), "prefix", "")
            for inner in _flatten(route.original_router.routes):
                yield prefix + inner


async def test_sandbox_app_then_only_sandbox_routes(world):
    app = create_sandbox_app(world.parts)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app", headers=OPERATOR) as http:
        for method, path in routes(world.app):
            filled = path.replace("{sandbox_id}", "sbx_1").replace("{spec_id}", "s").replace("{task_id}", "t")
            filled = filled.replace("{message_id}", "0" * 32).replace("{name}", "manifest.json")
            answer = await http.request(method, filled)
            mine = path.startswith("/api/v1/sandboxes/{sandbox_id}/") and (
                "/model/" in path
                or (method, path.rsplit("}/", 1)[1])
                in {("POST", "events"), ("GET", "messages"), ("POST", "ack"), ("PUT", "")}
                or path.endswith(("/ack", "{name}"))
            )
            assert answer.status_code == (401 if mine else answer.status_code)
            if not mine:
                assert answer.status_code in (404, 405), (method, path)


async def test_token_wrong_then_401_and_unset_then_403_to_everyone(world):
    async with world.http() as http:
        for headers, status in (
            ({}, 401),
            (bearer("wrong"), 401),
            ({"Authorization": b"Bearer \xff"}, 401),
            ({"Authorization": "operator-token"}, 401),
            (OPERATOR, 200),
        ):
            assert (await http.get("/api/v1/specs", headers=headers)).status_code == status
        world.parts.settings = world.settings.model_copy(update={"api_token": None})
        for headers in ({}, OPERATOR, bearer("")):
            assert (await http.get("/api/v1/specs", headers=headers)).status_code == 403


async def test_unknown_path_or_method_then_a_problem(http):
    for method, path, status in (("GET", "/nothing", 404), ("PUT", "/healthz", 405), ("GET", "/docs", 404)):
        answer = await http.request(method, path)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


# ------------------------------------------------------------ the description is true


async def test_description_then_real_answers_fit_it(world, http):
    sandbox_id, token = sandbox = await add_sandbox(world, 1, last_heartbeat_at=T0)
    await report(world, sandbox, event(1, "agent.heartbeat"), event(2))
    spec_id, task_id = "spec_00000000000000000001", "task_00000000000000000001"
    schema = (await http.get("/openapi.json")).json()
    mine = bearer(token)
    asks = [
        ("GET", "/healthz", "/healthz", {}),
        ("GET", "/readyz", "/readyz", {}),
        ("GET", "/api/v1/specs", "/api/v1/specs", {}),
        ("GET", "/api/v1/specs/{spec_id}", f"/api/v1/specs/{spec_id}", {}),
        ("GET", "/api/v1/specs/{spec_id}", "/api/v1/specs/none", {}),
        ("POST", "/api/v1/specs/{spec_id}/cancel", f"/api/v1/specs/{spec_id}/cancel", {}),
        ("POST", "/api/v1/specs/{spec_id}/execute", f"/api/v1/specs/{spec_id}/execute", {}),
        ("GET", "/api/v1/tasks", "/api/v1/tasks", {}),
        ("GET", "/api/v1/tasks", "/api/v1/tasks?limit=x", {}),
        ("GET", "/api/v1/tasks/{task_id}", f"/api/v1/tasks/{task_id}", {}),
        ("GET", "/api/v1/sandboxes", "/api/v1/sandboxes", {}),
        ("GET", "/api/v1/sandboxes/health", "/api/v1/sandboxes/health", {}),
        ("GET", "/api/v1/sandboxes/{sandbox_id}", f"/api/v1/sandboxes/{sandbox_id}", {}),
        ("GET", "/api/v1/sandboxes/{sandbox_id}/events", f"/api/v1/sandboxes/{sandbox_id}/events", {}),
        (
            "GET",
            "/api/v1/sandboxes/{sandbox_id}/trajectory",
            f"/api/v1/sandboxes/{sandbox_id}/trajectory",
            {},
        ),
        (
            "POST",
            "/api/v1/sandboxes/{sandbox_id}/messages",
            f"/api/v1/sandboxes/{sandbox_id}/messages",
            {"json": {"content": "x"}},
        ),
        (
            "GET",
            "/api/v1/sandboxes/{sandbox_id}/messages",
            f"/api/v1/sandboxes/{sandbox_id}/messages",
            {"headers": mine},
        ),
        (
            "POST",
            "/api/v1/sandboxes/{sandbox_id}/events",
            f"/api/v1/sandboxes/{sandbox_id}/events",
            {"headers": mine, "json": event(3)},
        ),
        (
            "POST",
            "/api/v1/sandboxes/{sandbox_id}/events",
            f"/api/v1/sandboxes/{sandbox_id}/events",
            {"headers": mine, "json": 1},
        ),
        (
            "POST",
            "/api/v1/sandboxes/{sandbox_id}/model/v1/messages",
            f"/api/v1/sandboxes/{sandbox_id}/model/v1/messages",
            {"headers": mine, "json": {}},
        ),
        ("POST", "/webhooks/github", "/webhooks/github", {"json": {}}),
    ]
    for method, path, url, more in asks:
        answer = await http.request(method, url, **more)
        described = schema["paths"][path][method.lower()]["responses"]
        assert str(answer.status_code) in described, (method, url, answer.status_code, answer.text)
        media = answer.headers["content-type"].split(";")[0]
        content = described[str(answer.status_code)]["content"]
        assert media in content, (method, url, media)
        jsonschema.Draft202012Validator(
            {**content[media]["schema"], "components": schema["components"]}
        ).validate(answer.json())


async def test_description_then_every_error_of_ours_has_our_media_type(world):
    schema = world.app.openapi()
    for path, methods in schema["paths"].items():
        for method, described in methods.items():
            assert "HTTPValidationError" not in str(described), (method, path)
            for status, answer in described["responses"].items():
                if status.startswith(("4", "5")) and "/model/" not in path and path != "/readyz":
                    assert list(answer["content"]) == ["application/problem+json"]
