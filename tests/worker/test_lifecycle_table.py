"""Every row of docs/lifecycle.md, run as it stands there: what becomes of a spec in that state when that happens."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from app.db.installations import record_repository
from app.db.models import Spec
from app.domain.states import SPEC_LIVE, SpecState
from tests.worker.bench import Bench
from tests.worker.conftest import EVENTS, PERMISSIONS
from tests.worker.lifecycle import (
    BEFORE,
    ENDED,
    WORKING,
    Case,
    checks,
    comments,
    live_boxes,
    make,
    row_of,
)
from worker.supervise.live_look import LiveLook

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lifecycle.md"
GROUPS = {"before": BEFORE, "working": WORKING, "ended": ENDED}
_ROW = re.compile(r"^\| (?P<event>[^|]+) \| (?P<states>[^|]+) \| (?P<cells>.+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    event: str
    states: tuple[SpecState, ...]
    spec: str
    sandbox: str
    status: str
    check: str


def parse_table(text: str) -> list[Row]:
    rows = []
    for found in _ROW.finditer(text):
        cells = [cell.strip().strip("`") for cell in found["cells"].split(" | ")]
        if len(cells) != 4 or found["event"] in {"event", "---"}:
            continue
        names = [name.strip() for name in found["states"].split(",")]
        states = [state for name in names for state in GROUPS.get(name) or (SpecState(name),)]
        rows.append(Row(found["event"], tuple(states), *cells))
    return rows


ROWS = parse_table(PAGE.read_text())
Act = Callable[[Bench, Case], Any]

ISSUE: dict[str, Act] = {
    "label removed": lambda b, c: b.unlabel(c.number),
    "closed": lambda b, c: b.github.close_issue(b.name, c.number, "alice"),
    "closed and reopened": lambda b, c: (
        b.github.close_issue(b.name, c.number, "alice"),
        b.github.reopen_issue(b.name, c.number, "alice"),
    ),
    "title and text edited": lambda b, c: b.github.edit_issue(b.name, c.number, "carol", title="X", body="Y"),
    "transferred": lambda b, c: b.github.transfer_issue(b.name, c.number, "alice", other_repository(b)),
    "deleted": lambda b, c: b.github.delete_issue(b.name, c.number, "alice"),
    "locked": lambda b, c: b.github.lock_issue(b.name, c.number, "alice"),
    "unlocked": lambda b, c: b.github.lock_issue(b.name, c.number, "alice", locked=False),
}
PULL: dict[str, Act] = {
    "pull request closed": lambda b, c: b.github.close_pull(b.name, c.pull or 0, "alice"),
    "pull request merged": lambda b, c: (
        b.github.set_draft(b.name, c.pull or 0, "alice", draft=False),
        b.github.merge_pull(b.name, c.pull or 0, "alice"),
    ),
    "pull request closed and reopened": lambda b, c: (
        b.github.close_pull(b.name, c.pull or 0, "alice"),
        b.github.reopen_pull(b.name, c.pull or 0, "alice"),
    ),
    "made ready by a person": lambda b, c: b.github.set_draft(b.name, c.pull or 0, "alice", draft=False),
    "made a draft by a person": lambda b, c: b.github.set_draft(b.name, c.pull or 0, "alice", draft=True),
    "text of the pull request edited": lambda b, c: b.github.edit_issue(
        b.name, c.pull or 0, "carol", body="Mine."
    ),
    "led to another base": lambda b, c: b.github.retarget_pull(b.name, c.pull or 0, "alice", "next"),
    "head pushed by a person": lambda b, c: b.github.push(b.name, "carol", c.branch, {"carol.txt": "hers\n"}),
    "head replaced by a person": lambda b, c: b.github.push(
        b.name, "carol", c.branch, {"carol.txt": "hers\n"}, force=True
    ),
    "branch deleted": lambda b, c: b.github.delete_branch(b.name, "alice", c.branch),
}


def other_repository(bench: Bench) -> str:
    owner = bench.name.split("/", maxsplit=1)[0]
    try:
        bench.github.refs(f"{owner}/attic")
    except LookupError:
        bench.github.create_repo(owner, "attic", {"README.md": "x"}, private=False, by="alice")
    return f"{owner}/attic"


def listen_to_everything(bench: Bench) -> None:
    bench.github.update_app(bench.app_id, events=[*EVENTS, "push", "delete", "repository"])
    bench.github.accept_permissions(bench.installation_id, "alice", PERMISSIONS)


async def hear(bench: Bench, *, backwards: bool = False) -> None:
    """What GitHub sent about the repository and the installation, each of it twice, and the second time the other way
    round; `backwards`: the newest first. Then what follows, in its time.
    """
    found = [one for one in bench.new_deliveries() if one["event"] != "check_suite"]
    for event in ("installation", "installation_repositories"):
        about = bench.github.deliveries(event, installation_id=bench.installation_id)
        found += [one for one in about if one["guid"] not in bench.seen]
    bench.seen |= {one["guid"] for one in found}
    await bench.receive(found[::-1] if backwards else found)
    await bench.receive(found if backwards else found[::-1], suffix="-again")
    await bench.rest(listen=False)
    for _ in range(4):
        bench.clock.add(3)
        await bench.rest(listen=False)


async def know_repository(bench: Bench) -> None:
    owner, name = bench.name.split("/")
    values = {"id": bench.repo_id, "installation_id": bench.installation_id, "owner": owner, "name": name}
    async with bench.db.write() as session:
        await record_repository(
            session, {**values, "default_branch": "main", "private": False}, bench.clock()
        )


async def prepare(bench: Bench, rows: list[Row], *, pull: bool) -> dict[SpecState, Case]:
    """A spec in each state that the rows are about, told as far as that goes."""
    listen_to_everything(bench)
    await know_repository(bench)
    bench.github.create_branch(bench.name, "alice", "next")
    wanted = [state for row in rows if row.spec != "–" for state in row.states]
    cases = {}
    for state in wanted:
        has_pull = pull or state in {*WORKING, SpecState.IN_REVIEW}
        cases[state] = await make(bench, state, pull=has_pull)
    bench.seen |= {one["guid"] for one in bench.github.deliveries("installation")}
    bench.new_deliveries()
    await bench.pass_time(9, 3)  # what is said of each is written at its own pace
    bench.new_deliveries()  # of what the App itself did
    for case in cases.values():
        remember(bench, case)
    return cases


def remember(bench: Bench, case: Case) -> None:
    case.said, case.checks = comments(bench, case), checks(bench, case)


async def judge(bench: Bench, rows: list[Row], cases: dict[SpecState, Case]) -> list[str]:
    """What is not as the table says."""
    faults = []
    for row in rows:
        for state in row.states:
            if row.spec == "–":
                continue
            for what, found in (await _compare(bench, row, cases[state])).items():
                faults.append(f"{row.event}, {state.value}: {what}: {found}")
    return faults


async def _compare(bench: Bench, row: Row, case: Case) -> dict[str, str]:
    spec = await row_of(bench, case)
    wrong: dict[str, str] = {}
    wanted = case.state if row.spec == "stays" else SpecState(row.spec)
    if spec.state is not wanted:
        wrong["spec"] = spec.state.value
    if spec.state not in SPEC_LIVE and spec.concluded_at is None:
        wrong["spec"] = "not concluded"
    boxes = await live_boxes(bench, case)
    if boxes != (case.boxes if row.sandbox == "stays" else 0):
        wrong["sandbox"] = f"{boxes} there"
    if row.status == "owed":
        if spec.status_untold is None:
            wrong["status"] = "not owed"
    else:
        wrong |= _compare_status(row.status, case, comments(bench, case))
    if row.check == "owed":
        if spec.check_untold is None:
            wrong["check"] = "not owed"
    elif row.check != "–" and row.status != "owed":
        wrong |= _compare_checks(row, case, spec.head_sha or "", checks(bench, case))
    return wrong


def _compare_status(wanted: str, case: Case, said: list[str]) -> dict[str, str]:
    if wanted == "stays":
        return {} if said == case.said else {"status": f"{case.said} became {said}"}
    if len(said) != 1:
        return {"status": f"{len(said)} comments"}
    return {} if wanted == "told" or wanted.strip("“”") in said[0] else {"status": said[0][:400]}


def _compare_checks(row: Row, case: Case, head: str, found: dict[str, str | None]) -> dict[str, str]:
    if row.check == "stays":
        return {} if found == case.checks else {"check": f"{case.checks} became {found}"}
    if row.check == "follows":
        wanted = "success" if (case.like or case.state) is SpecState.IN_REVIEW else None
        right = head != case.head and head in found and found[head] == wanted
    else:
        right = found.get(head) == row.check
    return {} if right else {"check": f"{found} on {head}"}


def rows_of(event: str) -> list[Row]:
    return [row for row in ROWS if row.event == event]


# ---------------------------------------------------------------- the tests


def test_every_event_says_what_happens_in_every_state_once() -> None:
    assert {row.event for row in ROWS} == {*ISSUE, *PULL, *WHOLE}
    for event in {row.event for row in ROWS}:
        states = sorted(state for row in rows_of(event) for state in row.states)
        assert states == sorted(SpecState), event


@pytest.mark.parametrize("event", ISSUE)
async def test_something_happens_to_the_issue_then_the_table_holds(bench: Bench, event: str) -> None:
    rows = rows_of(event)
    cases = await prepare(bench, rows, pull=False)
    if event == "unlocked":
        await owe_status(bench, cases)
    for case in cases.values():
        ISSUE[event](bench, case)
    await hear(bench)
    assert await judge(bench, rows, cases) == []


async def owe_status(bench: Bench, cases: dict[SpecState, Case]) -> None:
    """Locked, and refused since. Nothing has been written yet for one that is queued."""
    for case in cases.values():
        bench.github.lock_issue(bench.name, case.number, "alice")
    async with bench.db.write() as session:
        owed = update(Spec).where(Spec.state != SpecState.QUEUED)
        await session.execute(owed.values(status_untold="locked", status_refused_at=bench.clock()))


@pytest.mark.parametrize("event", PULL)
async def test_something_happens_to_the_pull_request_then_the_table_holds(bench: Bench, event: str) -> None:
    rows = rows_of(event)
    cases = await prepare(bench, rows, pull=True)
    for case in cases.values():
        PULL[event](bench, case)
    await hear(bench)
    assert await judge(bench, rows, cases) == []


async def _rename(bench: Bench) -> None:
    bench.github.rename_repo(bench.name, "alice", "toolbox")
    bench.name = bench.name.split("/", maxsplit=1)[0] + "/toolbox"


async def _transfer(bench: Bench, *, installed: bool) -> None:
    owner = f"{bench.name.split('/', maxsplit=1)[0]}-new"
    bench.github.create_org(owner, ["alice"])
    if installed:
        made = bench.github.install(bench.app_id, owner, by="alice")
        bench.installation_id = int(made["id"])
    bench.github.transfer_repo(bench.name, "alice", owner)
    bench.name = f"{owner}/kit"
    if not installed:
        bench.clock.add(601)
        await LiveLook(bench.parts).look()


async def _in_turn(bench: Bench, first: Callable[[], Any], second: Callable[[], Any]) -> None:
    first()
    await hear(bench)
    second()


def _install(bench: Bench) -> None:
    owner = bench.name.split("/", maxsplit=1)[0]
    bench.installation_id = int(bench.github.install(bench.app_id, owner, by="alice")["id"])


def _archive(bench: Bench, archived: bool) -> Any:
    return bench.github.archive_repo(bench.name, "alice", archived=archived)


WHOLE: dict[str, Callable[[Bench], Any]] = {
    "renamed": _rename,
    "transferred to an owner with the App": lambda b: _transfer(b, installed=True),
    "transferred to an owner without the App": lambda b: _transfer(b, installed=False),
    "archived": lambda b: _archive(b, True),
    "archived and unarchived": lambda b: _in_turn(b, lambda: _archive(b, True), lambda: _archive(b, False)),
    "made public, then private": lambda b: (
        b.github.set_private(b.name, "alice", private=False), b.github.set_private(b.name, "alice", private=True),
    ),
    "default branch changed": lambda b: b.github.set_default_branch(b.name, "alice", "next"),
    "repository deleted": lambda b: b.github.delete_repo(b.name, "alice"),
    "suspended": lambda b: b.github.suspend(b.installation_id, "alice"),
    "suspended and unsuspended": lambda b: _in_turn(
        b, lambda: b.github.suspend(b.installation_id, "alice"),
        lambda: b.github.unsuspend(b.installation_id, "alice"),
    ),
    "uninstalled": lambda b: b.github.uninstall(b.installation_id, "alice"),
    "uninstalled and installed again": lambda b: _in_turn(
        b, lambda: b.github.uninstall(b.installation_id, "alice"), lambda: _install(b)
    ),
    "permissions lowered": lambda b: b.github.accept_permissions(
        b.installation_id, "alice", {**PERMISSIONS, "checks": "read"}
    ),
    "repository taken out": lambda b: b.github.remove_from_installation(b.installation_id, "alice", [b.name]),
    "repository taken out and put back": lambda b: _in_turn(
        b, lambda: b.github.remove_from_installation(b.installation_id, "alice", [b.name]),
        lambda: b.github.add_to_installation(b.installation_id, "alice", [b.name]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("event", WHOLE)
async def test_something_happens_to_repository_or_installation_then_the_table_holds(
    bench: Bench, event: str
) -> None:
    rows = rows_of(event)
    cases = await prepare(bench, rows, pull=False)
    done = WHOLE[event](bench)
    if hasattr(done, "__await__"):
        await done
    await hear(bench)
    assert await judge(bench, rows, cases) == []
