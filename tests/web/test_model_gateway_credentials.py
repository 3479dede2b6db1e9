"""Whose key a model call goes out with: the nearest one, read anew each time, and to its own address only."""

from __future__ import annotations

import pytest

from app.db.cipher import Cipher
from app.db.credentials import SealedSecret, record_credential, remove_credential
from app.domain.credentials import CredentialKind, CredentialPlace, CredentialScope
from tests.web.conftest import OPERATOR, T0, served
from tests.web.gateway import Gateway, Upstream, plain, running

KEY = "k" * 40
ALICE = CredentialPlace(CredentialScope.USER, 11, CredentialKind.MODEL)
TEAM = CredentialPlace(CredentialScope.INSTALLATION, 1, CredentialKind.MODEL)
CANARY = "sk-canary-of-alice-0123456789-abcd"


@pytest.fixture
async def gateway(make_world):
    async with running(make_world, credentials_key=KEY) as one:
        one.upstream.answer = plain(input_tokens=1, output_tokens=1)
        yield one


async def store(
    gateway: Gateway, place: CredentialPlace, secret: str, url: str | None = None, key: str = KEY
) -> None:
    async with gateway.world.database.write() as session:
        sealed = SealedSecret.of(Cipher([key]), place, secret, url)
        await record_credential(session, place, sealed, T0)


async def key_sent(gateway: Gateway) -> str:
    assert (await gateway.ask()).status_code == 200
    return str(gateway.upstream.seen[-1][1]["x-api-key"])


async def test_each_call_uses_the_nearest_key_there_is_at_that_moment(gateway):
    assert await key_sent(gateway) == "real-model-key"
    assert (await gateway.row()).model_key_of == "operator"
    await store(gateway, TEAM, "key-of-the-team")
    assert await key_sent(gateway) == "key-of-the-team"
    await store(gateway, ALICE, "key-of-alice")
    assert await key_sent(gateway) == "key-of-alice"
    await store(gateway, ALICE, "another-key-of-alice")
    assert await key_sent(gateway) == "another-key-of-alice"
    assert (await gateway.row()).model_key_of == "user"
    async with gateway.world.database.write() as session:
        await remove_credential(session, ALICE)
    assert await key_sent(gateway) == "key-of-the-team"
    assert (await gateway.row()).model_key_of == "installation"
    await gateway.ask(None, "/v1/messages/count_tokens")
    assert gateway.upstream.seen[-1][1]["x-api-key"] == "key-of-the-team"


async def test_key_with_an_address_of_its_own_goes_there_and_nowhere_else(gateway):
    other = Upstream()
    other.answer = plain(input_tokens=1, output_tokens=1)
    async with served(other.app) as url:
        await store(gateway, ALICE, CANARY, url + "/other")
        assert (await gateway.ask()).status_code == 200
    ((path, headers, _),) = other.seen
    assert path.startswith("/other/v1/messages")
    assert headers["x-api-key"] == CANARY
    assert gateway.upstream.seen == []


@pytest.mark.parametrize("status", [401, 403])
async def test_upstream_refuses_the_key_then_403_that_says_whose_and_the_worker_can_tell(gateway, status):
    await store(gateway, ALICE, CANARY)
    gateway.upstream.status = status
    gateway.upstream.answer = b'{"error": {"message": "no: ' + CANARY.encode() + b'"}}'
    answer = await gateway.ask()
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")
    assert "person who set the label" in answer.json()["error"]["message"]
    row = await gateway.settled()
    assert (row.model_key_of, row.model_key_trouble, row.spent_usd) == ("user", str(status), 0)
    gateway.upstream.status, gateway.upstream.answer = 200, plain(input_tokens=1, output_tokens=1)
    await store(gateway, ALICE, "a-better-key")
    assert await key_sent(gateway) == "a-better-key"
    assert (await gateway.row()).model_key_trouble is None


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_planted_key_is_seen_by_its_upstream_and_by_nobody_else(gateway, path, log_output):
    await store(gateway, ALICE, CANARY)
    told = []
    for status in (200, 400, 401, 500):
        gateway.upstream.status = status
        gateway.upstream.answer = (
            b'{"error": {"message": "key ' + (b"" if status == 200 else CANARY.encode()) + b'"}}'
        )
        answer = await gateway.ask(None, path)
        told.append(f"{dict(answer.headers)} {answer.text}")
    assert [one[1]["x-api-key"] for one in gateway.upstream.seen] == [CANARY] * 4
    async with gateway.world.http(**OPERATOR) as http:
        told.append((await http.get(f"/api/v1/sandboxes/{gateway.sandbox_id}")).text)
    told.append(repr(await gateway.row()) + log_output.getvalue())
    assert "model_key_of" in told[-2]
    assert [text for text in told if CANARY in text] == []


async def test_key_that_cannot_be_decrypted_then_403_and_nobody_elses_is_used(gateway):
    await store(gateway, ALICE, CANARY, key="lost-" + "x" * 40)
    answer = await gateway.ask()
    assert answer.status_code == 403
    assert "can't be decrypted" in answer.json()["error"]["message"]
    assert gateway.upstream.seen == []
    row = await gateway.row()
    assert (row.model_key_of, row.model_key_trouble) == ("user", "no key in CREDENTIALS_KEY opens it")


async def test_person_has_a_key_then_the_operator_needs_none(gateway):
    gateway.world.parts.settings = gateway.world.settings.model_copy(update={"anthropic_api_key": None})
    assert (await gateway.ask()).status_code == 403
    assert (await gateway.row()).model_key_trouble == "missing"
    await store(gateway, ALICE, "key-of-alice")
    assert await key_sent(gateway) == "key-of-alice"
