"""The App, repositories by number, people's permissions by number: against the simulated GitHub."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from app.domain.errors import Denied, Gone
from app.domain.ids import InstallationId, UserId
from app.domain.ports import CheckOutput, GitHub, Permission, User
from app.github.gateway import GitHubAccess, GitHubGateway
from app.github.tokens import PERMISSIONS
from simulators.github.rest.manifest import new_key_pair
from tests.github.conftest import OpenPace, Stage

MANIFEST = Path(__file__).parents[2] / "app.yml"


def user(stage: Stage, login: str) -> User:
    found = next(one for one in stage.github.state()["users"] if one["login"] == login)
    return User(UserId(found["id"]), login)


async def test_gateway_is_what_the_port_promises(stage: Stage) -> None:
    gateway: GitHub = stage.gateway
    assert (await gateway.fetch_identity()).app_id == stage.app_id


async def test_identity_is_the_bots_and_asked_for_once(stage: Stage) -> None:
    identity = await stage.gateway.fetch_identity()
    assert identity.bot_login == f"{identity.slug}[bot]"
    assert identity.bot_user_id != stage.app_id
    assert identity.email == f"{identity.bot_user_id}+{identity.bot_login}@users.noreply.github.com"
    before = len(stage.requests())
    assert await stage.gateway.fetch_identity() == identity
    assert len(stage.requests()) == before


async def test_identity_is_known_before_the_first_installation(stage: Stage) -> None:
    stage.github.uninstall(stage.installation_id, "alice")
    assert (await stage.gateway.fetch_identity()).app_id == stage.app_id


async def test_renamed_repository_is_known_by_its_number(stage: Stage) -> None:
    stage.github.rename_repo(stage.name, "alice", f"{stage.repo.name}-renamed")
    found = await stage.gateway.fetch_repository(stage.repo)
    assert (found.repo_id, found.name) == (stage.repo.repo_id, f"{stage.repo.name}-renamed")


async def test_write_to_a_renamed_repository_arrives_as_the_same_write(stage: Stage) -> None:
    stage.github.rename_repo(stage.name, "alice", f"{stage.repo.name}-renamed")
    await stage.gateway.ensure_labels(stage.repo, (("agent", "5319e7", "Starts work"),))
    writes = stage.writes()
    assert [(one["method"], one["body"]["name"]) for one in writes if one["status"] == 201] == [
        ("POST", "agent")
    ]


async def test_other_repository_under_the_old_name_is_never_returned(stage: Stage) -> None:
    stage.github.rename_repo(stage.name, "alice", f"{stage.repo.name}-renamed")
    await stage.add_repo(stage.repo.name, files={"a": "a"}, private=False)
    assert (await stage.gateway.fetch_repository(stage.repo)).repo_id == stage.repo.repo_id


async def test_deleted_repository_is_gone(stage: Stage) -> None:
    known = stage.another_gateway()
    await known.fetch_repository(stage.repo)
    stage.github.delete_repo(stage.name, "alice")
    for gateway in (known, stage.gateway):  # with a token from before, and without
        with pytest.raises(Gone):
            await gateway.fetch_repository(stage.repo)
    await known.aclose()


async def test_repository_taken_out_of_the_installation_is_gone(stage: Stage) -> None:
    kept = await stage.add_repo(f"{stage.repo.name}-kept", files={"a": "a"})
    stage.github.uninstall(stage.installation_id, "alice")
    chosen = stage.github.install(stage.app_id, "alice", [kept.full_name])
    outside = replace(stage.repo, installation_id=InstallationId(chosen["id"]))
    with pytest.raises(Gone):
        await stage.gateway.fetch_repository(outside)


async def test_installation_lists_its_repositories(stage: Stage) -> None:
    installation_id = InstallationId(stage.installation_id)
    listed = await stage.gateway.fetch_installation_repositories(installation_id)
    assert stage.repo.repo_id in {repo.repo_id for repo in listed}


async def test_permission_is_what_github_says_now(stage: Stage) -> None:
    expected = {"alice": Permission.ADMIN, "carol": Permission.WRITE, "bob": Permission.READ}
    for login, permission in expected.items():
        assert await stage.gateway.fetch_permission(stage.repo, user(stage, login)) is permission
    stage.github.set_collaborator(stage.name, "carol", "maintain")
    assert (await stage.gateway.fetch_permission(stage.repo, user(stage, "carol"))).may_write
    stage.github.set_collaborator(stage.name, "carol", "triage")
    assert not (await stage.gateway.fetch_permission(stage.repo, user(stage, "carol"))).may_write


async def test_login_taken_over_by_a_writer_gives_nothing_to_the_old_number(stage: Stage) -> None:
    former = User(user(stage, "dave").user_id, "carol")
    assert not (await stage.gateway.fetch_permission(stage.repo, former)).may_write


async def test_writer_under_a_new_login_keeps_the_permission(stage: Stage) -> None:
    renamed = User(user(stage, "carol").user_id, "carol-as-she-was-called")
    assert await stage.gateway.fetch_permission(stage.repo, renamed) is Permission.WRITE


async def test_person_who_no_longer_exists_may_nothing(stage: Stage) -> None:
    ghost = User(UserId(987_654_321), "ghost-of-nobody")
    assert await stage.gateway.fetch_permission(stage.repo, ghost) is Permission.NONE


async def test_suspended_installation_is_denied_as_suspended(stage: Stage) -> None:
    stage.github.suspend(stage.installation_id, "alice")
    with pytest.raises(Denied) as denied:
        await stage.gateway.fetch_repository(stage.repo)
    assert denied.value.reason == "suspended"


async def test_deleted_installation_is_gone(stage: Stage) -> None:
    stage.github.uninstall(stage.installation_id, "alice")
    with pytest.raises(Gone):
        await stage.gateway.fetch_repository(stage.repo)


async def test_wrong_key_is_denied_after_one_request(stage: Stage) -> None:
    access = GitHubAccess(stage.access.api_url, stage.access.web_url, stage.app_id, new_key_pair()[0])
    gateway = GitHubGateway(access, stage.clock, OpenPace(stage.clock), stage.calls.append)
    with pytest.raises(Denied) as denied:
        await gateway.fetch_repository(stage.repo)
    await gateway.aclose()
    assert denied.value.reason == "credentials"
    assert len(stage.requests()) == 1


async def test_unreadable_key_is_denied_without_quoting_it(stage: Stage) -> None:
    access = GitHubAccess(stage.access.api_url, stage.access.web_url, stage.app_id, "-----SECRET-----")
    gateway = GitHubGateway(access, stage.clock, OpenPace(stage.clock), stage.calls.append)
    with pytest.raises(Denied) as denied:
        await gateway.fetch_identity()
    await gateway.aclose()
    assert "SECRET" not in f"{denied.value!r} {access!r}"


async def test_installation_with_fewer_permissions_works_with_those(stage: Stage) -> None:
    fewer = {"contents": "write", "issues": "write", "metadata": "read", "pull_requests": "write"}
    stage.github.accept_permissions(stage.installation_id, "alice", fewer)
    await stage.gateway.ensure_labels(stage.repo, (("agent", "5319e7", "Starts work"),))
    output = CheckOutput("t", "s", "")
    with pytest.raises(Denied) as denied:
        await stage.gateway.ensure_check_run(stage.repo, stage.head(), "spec_1", output, known_id=None)
    assert denied.value.reason == "permission"
    stage.github.accept_permissions(stage.installation_id, "alice")
    await stage.gateway.ensure_check_run(stage.repo, stage.head(), "spec_1", output, known_id=None)


@pytest.mark.skipif(not MANIFEST.exists(), reason="the App's manifest is not written yet")
def test_tokens_ask_for_nothing_that_the_apps_manifest_does_not_declare() -> None:
    declared = yaml.safe_load(MANIFEST.read_text())["default_permissions"]
    levels = {"read": 1, "write": 2, "admin": 3}
    for permissions in PERMISSIONS.values():
        for name, level in permissions.items():
            assert levels[level] <= levels.get(declared.get(name), 0), name
