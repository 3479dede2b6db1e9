"""App JWTs, installation tokens, scopes and permissions."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import jwt
import pytest

from simulators.github.rest.manifest import new_key_pair
from tests.simulators.github.conftest import PRIVATE_KEY, REPO, Stage


def mint(stage: Stage, **body: Any) -> httpx.Response:
    with stage.as_app() as http:
        return http.post(f"/app/installations/{stage.installation}/access_tokens", json=body)


def bearer(stage: Stage, token: str) -> httpx.Client:
    return httpx.Client(base_url=stage.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False)


@pytest.mark.parametrize("issuer", ["text", "number", "client id"])
def test_jwt_when_issuer_names_the_app_then_accepted(stage: Stage, issuer: str) -> None:
    names = {"text": str(stage.app["id"]), "number": stage.app["id"], "client id": stage.app["client_id"]}
    now = int(time.time())
    claims = {"iss": names[issuer], "iat": now, "exp": now + 60}
    if issuer == "number":  # pyjwt refuses to write a number: sign it in two steps
        token = jwt.PyJWS().encode(str(claims).replace("'", '"').encode(), PRIVATE_KEY, algorithm="RS256")
    else:
        token = jwt.encode(claims, PRIVATE_KEY, algorithm="RS256")
    with bearer(stage, token) as http:
        answer = http.get("/app")
    assert answer.status_code == 200
    assert answer.json()["slug"] == "issuewright"


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"exp": -1}, "'Expiration time' claim ('exp') must be a numeric value"),
        ({"exp": 1200}, "'Expiration time' claim ('exp') is too far in the future"),
        ({"iat": 120}, "'Issued at' claim ('iat') must be an Integer"),
        ({"iss": "1"}, "Integration not found"),
    ],
)
def test_jwt_when_claims_are_wrong_then_401_says_which(
    stage: Stage, claims: dict[str, Any], message: str
) -> None:
    now = int(time.time())
    given = {name: value if name == "iss" else now + value for name, value in claims.items()}
    with stage.as_app(**given) as http:
        answer = http.get("/app")
    assert answer.status_code == 401
    assert answer.json()["message"].startswith(message)


def test_jwt_when_signed_with_another_key_then_401(stage: Stage) -> None:
    now = int(time.time())
    claims = {"iss": str(stage.app["id"]), "iat": now, "exp": now + 60}
    with bearer(stage, jwt.encode(claims, new_key_pair()[0], algorithm="RS256")) as http:
        answer = http.get("/app")
    assert (answer.status_code, answer.json()["message"]) == (401, "A JSON web token could not be decoded")


def test_jwt_when_clocks_differ_then_leeway_is_a_minute(stage: Stage) -> None:
    with stage.as_app(iat=int(time.time())) as http:
        stage.control.skew_clock(-30)
        assert http.get("/app").status_code == 200
        stage.control.skew_clock(-120)
        assert http.get("/app").status_code == 401


def test_credentials_when_of_the_wrong_kind_then_401(stage: Stage) -> None:
    with stage.as_app() as app, stage.client() as installation:
        assert app.get(f"/repos/{REPO}").status_code == 401
        assert app.get("/installation/repositories").status_code == 401
        assert installation.get("/app").status_code == 401


def test_token_when_minted_then_shaped_as_githubs(stage: Stage) -> None:
    answer = mint(stage, repositories=["demo"], permissions={"issues": "read"})
    body = answer.json()
    assert answer.status_code == 201
    assert body["token"].startswith(f"ghs_{stage.app['id']}_")
    assert len(body["token"]) == 520
    assert body["token"].count(".") == 2
    assert body["permissions"] == {"metadata": "read", "issues": "read"}
    assert [one["name"] for one in body["repositories"]] == ["demo"]
    expires = datetime.strptime(body["expires_at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert timedelta(minutes=59) < expires - datetime.now(UTC) <= timedelta(hours=1)


@pytest.mark.parametrize("body", [{"permissions": {"administration": "write"}}, {"repository_ids": [1]}])
def test_token_when_more_is_asked_than_granted_then_422(stage: Stage, body: dict[str, Any]) -> None:
    assert mint(stage, **body).status_code == 422


def test_token_when_narrowed_then_other_repositories_are_404(stage: Stage) -> None:
    stage.control.create_repo("alice", "other", {"a": "b"})
    with stage.client(repos=[REPO]) as http:
        assert http.get(f"/repos/{REPO}").status_code == 200
        assert http.get("/repos/alice/other").status_code == 404
        names = [one["name"] for one in http.get("/installation/repositories").json()["repositories"]]
    assert names == ["demo"]


def test_token_when_permission_is_missing_then_403(stage: Stage) -> None:
    with stage.client({"issues": "read"}) as http:
        answer = http.post(f"/repos/{REPO}/issues", json={"title": "No"})
    assert (answer.status_code, answer.json()["message"]) == (403, "Resource not accessible by integration")


def test_token_when_an_hour_old_then_bad_credentials(stage: Stage) -> None:
    with stage.client() as http:
        stage.control.advance_clock(3601)
        answer = http.get(f"/repos/{REPO}")
    assert (answer.status_code, answer.json()["message"]) == (401, "Bad credentials")
    assert mint(stage).status_code == 201


def test_installation_when_suspended_or_deleted_then_tokens_end(stage: Stage) -> None:
    with stage.client() as http:
        stage.control.suspend(stage.installation, "alice")
        assert http.get(f"/repos/{REPO}").status_code == 403
        assert mint(stage).status_code == 403
        stage.control.unsuspend(stage.installation, "alice")
        assert http.get(f"/repos/{REPO}").status_code == 200
        stage.control.uninstall(stage.installation, "alice")
        assert http.get(f"/repos/{REPO}").status_code == 401
    assert mint(stage).status_code == 404


def test_bot_when_looked_up_then_its_id_is_not_the_apps(stage: Stage) -> None:
    with stage.client() as http:
        bot = http.get("/users/issuewright%5Bbot%5D").json()
        again = http.get(f"/user/{bot['id']}").json()
    assert (bot["login"], bot["type"]) == ("issuewright[bot]", "Bot")
    assert bot["id"] != stage.app["id"]
    assert again["login"] == bot["login"]


def test_request_log_when_tokens_were_used_then_holds_none(stage: Stage) -> None:
    token = mint(stage).json()["token"]
    with bearer(stage, token) as http:
        http.get(f"/repos/{REPO}")
    log = str(stage.control.requests()) + str(stage.control.state())
    assert token not in log
    assert "ghs_" not in log


def test_permission_when_asked_then_coarse_word_and_role(stage: Stage) -> None:
    control = stage.control
    control.set_collaborator(REPO, "bob", "triage")
    control.set_collaborator(REPO, "carol", "maintain")
    with stage.client() as http:
        found = {
            login: http.get(f"/repos/{REPO}/collaborators/{login}/permission")
            for login in ("alice", "bob", "carol", "dave", "nobody")
        }
    words = {who: (a.json().get("permission"), a.json().get("role_name")) for who, a in found.items()}
    assert words["alice"] == ("admin", "admin")
    assert words["bob"] == ("read", "triage")
    assert words["carol"] == ("write", "maintain")
    assert words["dave"] == ("none", "none")
    assert found["nobody"].status_code == 404
