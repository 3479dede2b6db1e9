from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.contextvars import clear_contextvars

from app.observability.logging import bound, configure_logging, get_logger
from app.observability.redaction import register_secret

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"
PLANTED = {
    "installation token": "ghs_" + "A1b2C3d4" * 5,
    "stateless token": "ghs_eyJhbGciOi.payload-part.signature_part_0123456789",
    "personal token": "github_pat_" + "11ABCDEFG0" * 4,
    "model key": "sk-ant-api03-" + "x" * 40,
    "app key": PEM,
    "app jwt": "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxMjM0NSJ9.c2lnbmF0dXJlLXBhcnQ",
    "webhook secret": "a plain sentence as webhook secret",
}


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    before = logging.getLogger().handlers[:], logging.getLogger().level
    stream = io.StringIO()
    configure_logging("web", "json", "debug", stream)
    register_secret(PLANTED["webhook secret"])
    yield stream
    clear_contextvars()
    logging.captureWarnings(capture=False)
    logging.getLogger().handlers[:], level = before
    logging.getLogger().setLevel(level)


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("name", PLANTED)
def test_secret_anywhere_in_a_line_is_masked(out: io.StringIO, name: str) -> None:
    secret = PLANTED[name]
    log = get_logger()
    log.info(
        "call.failed", url=f"https://x-access-token:{secret}@github.example/r.git", detail=[{"deep": secret}]
    )
    log.warning(f"call.failed with {secret}")  # noqa: G004 - the mistake that must not matter
    logging.getLogger("httpx").warning("request with %s", secret)
    try:
        raise ValueError(f"refused: {secret}")
    except ValueError:
        log.exception("call.crashed")
    text = out.getvalue()
    assert len(lines(out)) == 4
    for part in secret.splitlines():
        assert part not in text


def test_url_password_and_authorization_are_masked_whatever_they_are(out: io.StringIO) -> None:
    get_logger().info(
        "push.refused",
        url="https://x-access-token:opaque123@github.example/r.git",
        said="Authorization: Bearer opaque1234567",
    )
    assert "opaque" not in out.getvalue()
    assert "@github.example/r.git" in out.getvalue()


def test_bodies_and_fields_named_like_secrets_are_left_out(out: io.StringIO) -> None:
    get_logger().info("delivery.recorded", body=b"{}", signature="sha256=00", headers={"a": "b"}, api_key="k")
    (line,) = lines(out)
    assert line["body"] == "[2 long]"
    assert (line["signature"], line["headers"], line["api_key"]) == ("[secret]", "[left out]", "[secret]")


def test_keys_bound_for_a_job_cling_to_its_lines_only(out: io.StringIO) -> None:
    log = get_logger()
    with bound(spec_id="spec_1", task_id=None):
        log.info("spec.claimed", fence=3)
    log.info("sweep.finished")
    first, second = lines(out)
    assert (first["spec_id"], first["fence"], first["process"], first["level"]) == (
        "spec_1",
        3,
        "web",
        "info",
    )
    assert "task_id" not in first
    assert "spec_id" not in second


def test_chatty_libraries_are_quiet_and_in_the_same_form(out: io.StringIO) -> None:
    logging.getLogger("uvicorn.access").info('"POST /webhooks/github HTTP/1.1" 202')
    logging.getLogger("httpx").info("HTTP Request: GET https://api.github.com")
    logging.getLogger("arq.worker").error("lost the connection")
    (line,) = lines(out)
    assert (line["event"], line["library"], line["process"]) == ("lost the connection", "arq.worker", "web")
