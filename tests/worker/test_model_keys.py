"""Whose model key a run used, and what people are told when there is none or it is refused."""

from __future__ import annotations

from dataclasses import replace

from app.db.cipher import Cipher
from app.db.credentials import SealedSecret, record_credential
from app.db.sandboxes import set_sandbox
from app.domain.credentials import CredentialKind, CredentialPlace, CredentialScope
from app.domain.states import SpecState
from tests.worker.bench import LABEL, Bench
from tests.worker.test_life import start


async def store(bench: Bench, scope: CredentialScope, owner_id: int) -> None:
    place = CredentialPlace(scope, owner_id, CredentialKind.MODEL)
    async with bench.db.write() as session:
        sealed = SealedSecret.of(Cipher(["k" * 40]), place, "canary-key-0123456789-abcd", None)
        await record_credential(session, place, sealed, bench.clock())


async def note_key(bench: Bench, of: str, trouble: str | None = None) -> None:
    """As the gateway notes it."""
    async with bench.db.write() as session:
        sandbox_id = bench.sandboxes.newest.sandbox_id
        await set_sandbox(session, sandbox_id, bench.clock(), model_key_of=of, model_key_trouble=trouble)


async def test_no_key_anywhere_then_told_once_and_the_label_starts_it_when_there_is_one(bench: Bench) -> None:
    bench.parts = replace(bench.parts, model_ready=False)
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    spec = await bench.spec()
    assert spec.state is SpecState.FAILED
    assert f"issuewright credentials set model --user {spec.labeler_id}" in bench.status(number)
    assert len(bench.comments(number)) == 1
    assert bench.sandboxes.orders == {}
    await store(bench, CredentialScope.INSTALLATION, bench.installation_id)
    bench.unlabel(number)
    bench.github.add_labels(bench.name, number, "carol", LABEL)
    await bench.rest()
    assert len(bench.sandboxes.orders) == 1


async def test_persons_key_is_enough_and_the_status_says_whose_was_used(bench: Bench) -> None:
    number = await start(bench)
    await note_key(bench, "user")
    await bench.hand_in()
    await bench.rest()
    assert "model key of alice" in bench.status(number)
    assert "canary" not in bench.status(number)


async def test_key_is_refused_then_told_what_to_do_and_it_can_be_tried_again(bench: Bench) -> None:
    number = await start(bench)
    await note_key(bench, "user", "401")
    await bench.hand_in(status="failed", reason="model_error", detail="the agent's own words")
    await bench.rest()
    spec = await bench.spec()
    assert spec.state is SpecState.FAILED
    status = bench.status(number)
    assert "refuses the model key of alice (401)" in status
    assert f"credentials set model --user {spec.labeler_id}" in status
    assert "own words" not in status
    run = bench.github.check_runs(bench.name)[-1]
    assert run["conclusion"] == "failure"
    bench.github.press_button(run["id"], "alice", "retry")
    await bench.rest()
    assert len(bench.sandboxes.orders) == 2


async def test_sandbox_is_lost_after_its_key_was_refused_then_no_other_attempt_is_made(bench: Bench) -> None:
    number = await start(bench)
    await note_key(bench, "operator", "403")
    bench.sandboxes.end(bench.sandboxes.newest.name, 10)
    await bench.pass_time(30)
    assert len(bench.sandboxes.orders) == 1
    assert "refuses the model key of the operator (403)" in bench.status(number)
    assert (await bench.spec()).state is SpecState.FAILED
