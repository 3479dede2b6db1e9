"""Remote sandboxes out of the app's reach, and in somebody's own account: what is ordered, noted and told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from app.db.cipher import Cipher
from app.db.credentials import SealedSecret, record_credential
from app.db.models import Relay
from app.domain.conductor import Link
from app.domain.credentials import CredentialKind, CredentialPlace, CredentialScope
from app.domain.errors import Denied
from app.domain.ports import SandboxOrder, SandboxSight
from app.domain.remote import AppSilent, DirectModel
from app.domain.states import SpecState
from tests.domain.test_guardian import error
from tests.worker import planning
from tests.worker.bench import Bench
from tests.worker.test_comments import replies
from tests.worker.test_conductor import look_for
from tests.worker.test_guardian import look, remind, tell
from tests.worker.test_life import finish, start
from worker.parts import ModelKeys
from worker.supervise.guardian import Looked

CIPHER = Cipher(["k" * 40])
OURS = "sk-ours-canary-0123456789"
ALICES = "alices-canary-0123456789-abcd"
URL = "https://models.example.org"


def remote(bench: Bench, *, may_enter: bool) -> None:
    bench.sandboxes.kind = "daytona"
    bench.parts = replace(bench.parts, model_keys=ModelKeys(CIPHER, URL, OURS, may_enter))


async def store(bench: Bench, kind: CredentialKind, owner_id: int, scope: CredentialScope) -> None:
    place = CredentialPlace(scope, owner_id, kind)
    async with bench.db.write() as session:
        sealed = SealedSecret.of(CIPHER, place, ALICES, None)
        await record_credential(session, place, sealed, bench.clock())


@pytest.mark.parametrize(
    ("may_enter", "persons", "expected"),
    [
        (False, False, DirectModel("operator", URL)),
        (True, False, DirectModel("operator", URL, OURS)),
        (False, True, DirectModel("installation", URL)),
        (True, True, DirectModel("installation", URL, ALICES)),
    ],
)
async def test_key_is_offered_to_a_remote_sandbox_only_where_it_may_enter(
    bench: Bench, *, may_enter: bool, persons: bool, expected: DirectModel
) -> None:
    remote(bench, may_enter=may_enter)
    if persons:
        await store(bench, CredentialKind.MODEL, bench.installation_id, CredentialScope.INSTALLATION)
    await start(bench)
    assert bench.sandboxes.newest.direct_model == expected


async def test_local_sandbox_is_offered_no_key(bench: Bench) -> None:
    await start(bench)
    assert bench.sandboxes.newest.direct_model is None


async def test_sandbox_behind_a_relay_is_noted_once_with_whose_key_it_has(bench: Bench) -> None:
    remote(bench, may_enter=True)
    created = bench.sandboxes.ensure_created

    async def relayed(order: SandboxOrder) -> SandboxSight:
        return replace(await created(order), relayed=True)

    bench.sandboxes.ensure_created = relayed  # type: ignore[method-assign]
    number = await start(bench)
    async with bench.db.read() as session:
        rows = (await session.scalars(select(Relay))).all()
    assert [row.sandbox_id for row in rows] == [bench.sandboxes.newest.sandbox_id]
    await finish(bench, number)
    assert "model key of the operator" in bench.status(number)


async def test_no_way_to_the_model_then_people_are_told_what_the_operator_can_do(bench: Bench) -> None:
    remote(bench, may_enter=False)

    async def refused(order: SandboxOrder) -> SandboxSight:
        raise Denied("agents would have no model: MODEL_KEY_IN_SANDBOX=true", reason="sandbox")

    bench.sandboxes.ensure_created = refused  # type: ignore[method-assign]
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    assert "MODEL\\_KEY\\_IN\\_SANDBOX=true" in bench.status(
        number
    ) or "MODEL_KEY_IN_SANDBOX" in bench.status(number)


async def test_app_answers_nobody_then_the_work_waits_for_it_however_long_and_says_so(bench: Bench) -> None:
    remote(bench, may_enter=False)
    create = bench.sandboxes.ensure_created

    async def silent(order: SandboxOrder) -> SandboxSight:
        raise AppSilent("the app answers nobody", bench.clock() + timedelta(seconds=20))

    bench.sandboxes.ensure_created = silent  # type: ignore[method-assign]
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    await bench.pass_time(3 * 3600, 120)
    assert "answers neither the next sandbox nor the worker" in bench.status(number)
    bench.sandboxes.ensure_created = create  # type: ignore[method-assign]
    await bench.pass_time(60, 10)
    assert [(box.attempt, box.started_at is not None) for box in await bench.boxes()] == [(1, True)]
    assert "Waits for" not in bench.status(number)


async def test_agent_says_a_key_that_entered_its_sandbox_then_people_are_not_shown_it(bench: Bench) -> None:
    remote(bench, may_enter=True)
    await store(bench, CredentialKind.MODEL, bench.installation_id, CredentialScope.INSTALLATION)
    number = await start(bench)
    await remind(bench, 3)
    await tell(bench, *[error(f"the API refuses the key {ALICES} as unknown")] * 3)
    assert await look(bench) == Looked(1, paused=1)
    await tell(bench, ("agent.tool_use", {"tool": ALICES, "input": {}, "tool_use_id": "t"}))
    await bench.pass_time(15)
    pull = (await bench.spec()).pull_number
    assert pull is not None
    (notice,) = replies(bench, pull)
    assert "the API refuses the key [redacted: our own secret] as unknown" in notice
    assert ALICES not in notice + bench.status(number)


async def test_planner_says_a_key_that_entered_its_sandbox_then_people_are_not_shown_it(bench: Bench) -> None:
    remote(bench, may_enter=True)
    await store(bench, CredentialKind.MODEL, bench.installation_id, CredentialScope.INSTALLATION)
    number = planning.start(bench)
    await bench.rest()
    finding = {"rule": "cycle", "message": f"{ALICES} is not known", "where": "explore"}
    await planning.report(bench, "spec.phase_started", phase="explore", attempt=1)
    await planning.report(bench, "spec.phase_failed", phase="explore", attempts=3, findings=[finding])
    await planning.end_round(bench, status="failed", reason="phase_failed", detail="explore")
    await bench.rest()
    assert "[redacted: our own secret] is not known" in bench.status(number)
    assert ALICES not in bench.status(number)


async def test_app_answers_nobody_for_long_then_the_issue_says_that_nothing_moves(bench: Bench) -> None:
    remote(bench, may_enter=False)

    async def silent(order: SandboxOrder) -> SandboxSight:
        raise AppSilent("the app answers nobody", bench.clock() + timedelta(seconds=20))

    bench.sandboxes.ensure_created = silent  # type: ignore[method-assign]
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    told = await look_for(bench, 17)
    assert [(one.link, one.spec.issue_number) for one in told] == [(Link.STANDSTILL, number)]


async def test_installations_account_is_noted_with_its_sandbox_and_others_are_the_operators(
    bench: Bench,
) -> None:
    remote(bench, may_enter=False)
    await store(bench, CredentialKind.DAYTONA, bench.installation_id, CredentialScope.INSTALLATION)
    await start(bench)
    (box,) = await bench.boxes()
    assert box.account_of == f"installation {bench.installation_id}"


async def test_account_does_not_let_us_delete_then_the_work_ends_well_and_people_are_told(
    bench: Bench,
) -> None:
    remote(bench, may_enter=False)
    number = await start(bench)

    async def locked(name: str) -> None:
        raise Denied("the Daytona key of user 11 can't be used (it was removed)", reason="account")

    bench.sandboxes.ensure_deleted = locked  # type: ignore[method-assign]
    await finish(bench, number)
    assert "could not be removed: the Daytona key of user 11" in bench.status(number)
