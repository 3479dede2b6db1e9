"""What each kind of failure means: answers as GitHub gives them, through the real client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest
import respx

from app.domain.errors import Denied, Gone, OutsideError, Refused, RetryAt, Unexpected
from app.domain.ids import InstallationId, RepoId
from app.domain.ports import RepoRef
from app.github.clients import Api, Ask, work_on
from app.github.errors import classify, classify_graphql
from app.github.gateway import GitHubAccess
from tests.github.conftest import PRIVATE_KEY, Clock, OpenPace

BASE = "https://api.github.com"
REPO = RepoRef(InstallationId(5), RepoId(7), "alice", "demo")
NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@dataclass
class Stopped:
    """A clock that stands."""

    at: datetime = NOW
    calls: list[Any] = field(default_factory=list)

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    clock = Stopped()
    made = Api(
        GitHubAccess(BASE, "https://github.com", 1, PRIVATE_KEY), clock, OpenPace(Clock()), clock.calls.append
    )
    yield made
    await made.aclose()


@pytest.fixture
def github() -> Any:
    with respx.mock(base_url=BASE) as router:
        router.post("/app/installations/5/access_tokens").respond(
            201, json={"token": "ghs_1_x.y.z", "expires_at": "2026-05-01T13:00:00Z"}
        )
        yield router


async def failure(
    api: Api, github: Any, answer: httpx.Response | Exception, method: str = "POST"
) -> OutsideError:
    github.route(method=method, path="/repos/alice/demo/labels").mock(
        side_effect=answer if isinstance(answer, Exception) else None,
        return_value=None if isinstance(answer, Exception) else answer,
    )
    with pytest.raises(OutsideError) as caught:
        await api.call(Ask(method, "/repos/alice/demo/labels", work_on(REPO)))
    return caught.value


def entry(code: str, field_name: str = "name", message: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"resource": "X", "code": code, "field": field_name}
    return found if message is None else {**found, "message": message}


RESET = {
    "x-ratelimit-remaining": "0",
    "x-ratelimit-reset": str(int((NOW + timedelta(minutes=20)).timestamp())),
}
END_HOUR_OFF = str(int((NOW + timedelta(hours=1, minutes=20)).timestamp()))
HOUR_OFF = {"date": format_datetime(NOW + timedelta(hours=1), usegmt=True)}
LIMITS = [
    (403, {"retry-after": "75"}, "You have exceeded a secondary rate limit.", 75),
    (429, {"retry-after": "75"}, "Too many requests", 75),
    (429, {}, "Too many requests", 60),
    (403, {}, "You have exceeded a secondary rate limit. Please wait.", 60),
    (403, {"x-ratelimit-remaining": "0"}, "You have exceeded a secondary rate limit", 60),
    (403, {}, "You have triggered an abuse detection mechanism", 60),
    (403, RESET, "API rate limit exceeded for installation ID 5.", 1201),
    (429, RESET, "API rate limit exceeded", 1201),
    # Its clock is an hour ahead of ours, and so is the end that it names.
    (403, {**RESET, **HOUR_OFF, "x-ratelimit-reset": END_HOUR_OFF}, "API rate limit exceeded", 1201),
    *(
        (403, {**RESET, "date": date}, "API rate limit exceeded", 1201)
        for date in (f"Mon, 30 Nov {'9' * 20} 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "today")
    ),
    (403, {}, "API rate limit exceeded", 60),
    (429, {"retry-after": "99999999"}, "wait for years", 7200),
    (429, {"retry-after": "nonsense"}, "wait", 60),
]


@pytest.mark.parametrize(("status", "headers", "message", "seconds"), LIMITS)
async def test_limit_silences_the_installation_for_the_time_github_says(
    api: Api, github: Any, status: int, headers: Mapping[str, str], message: str, seconds: int
) -> None:
    error = await failure(api, github, httpx.Response(status, headers=headers, json={"message": message}))
    assert isinstance(error, RetryAt)
    assert error.scope == "installation"
    assert (error.at - NOW).total_seconds() == seconds


async def test_retry_after_as_a_date_is_understood(api: Api, github: Any) -> None:
    header = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    error = await failure(api, github, httpx.Response(429, headers={"retry-after": header}))
    assert isinstance(error, RetryAt)
    assert 90 <= (error.at - NOW).total_seconds() <= 100


DENIALS = [
    (401, "Bad credentials", "credentials"),
    (403, "Resource not accessible by integration", "permission"),
    (403, "Repository was archived so is read-only.", "archived"),
    (403, "Unable to create comment because issue is locked.", "locked"),
    (403, "This installation has been suspended", "suspended"),
    (403, "Repository access blocked", "blocked"),
    (403, "", "permission"),
]


@pytest.mark.parametrize(("status", "message", "reason"), DENIALS)
async def test_denial_has_a_stable_reason(
    api: Api, github: Any, status: int, message: str, reason: str
) -> None:
    error = await failure(api, github, httpx.Response(status, json={"message": message}))
    assert isinstance(error, Denied)
    assert error.reason == reason


@pytest.mark.parametrize("status", [404, 410, 451])
async def test_what_is_not_there_is_gone(api: Api, github: Any, status: int) -> None:
    error = await failure(api, github, httpx.Response(status, json={"message": "Not Found"}))
    assert isinstance(error, Gone)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
async def test_server_trouble_is_put_off_for_this_call_only(api: Api, github: Any, status: int) -> None:
    error = await failure(api, github, httpx.Response(status, text="<html>Unicorn</html>"))
    assert isinstance(error, RetryAt)
    assert error.scope == "call"
    assert error.at > NOW


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.ConnectTimeout("slow"),
        httpx.PoolTimeout("busy"),
        httpx.RemoteProtocolError("cut"),
        httpx.ReadError("reset"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_broken_connection_is_put_off_for_this_call_only(
    api: Api, github: Any, error: Exception
) -> None:
    found = await failure(api, github, error)
    assert isinstance(found, RetryAt)
    assert found.scope == "call"


REFUSALS: list[tuple[int, str, list[Any], str]] = [
    (409, "Git Repository is empty.", [], "empty_repository"),
    (409, "Conflict", [], "conflict"),
    (405, "Pull Request is not mergeable", [], "not_allowed"),
    (422, "Reference already exists", [], "ref_exists"),
    (422, "Reference does not exist", [], "ref_missing"),
    (422, "'refs/heads/feature' exists; cannot create 'refs/heads/feature/1'", [], "ref_blocked"),
    (422, "Object does not exist", [], "missing_object"),
    (422, "Validation Failed", [entry("already_exists")], "already_exists"),
    (
        422,
        "Validation Failed",
        [entry("custom", "head", "A pull request already exists for alice:x.")],
        "already_exists",
    ),
    (422, "Validation Failed", [entry("custom", "base", "No commits between main and x")], "no_commits"),
    (422, "Validation Failed", [entry("invalid", "base")], "missing_base"),
    (422, "Validation Failed", [entry("invalid", "head")], "missing_head"),
    (422, "Validation Failed", [entry("missing_field")], "missing_field"),
    (
        422,
        "Validation Failed",
        [entry("custom", "body", "body is too long (maximum is 65536 characters)")],
        "body_too_long",
    ),
    (422, "Draft pull requests are not supported in this repository.", [], "drafts_unsupported"),
    (422, "Reviews may only be requested from collaborators.", [], "not_collaborator"),
    (422, "Review cannot be requested from pull request author.", [], "is_author"),
    (422, "Validation Failed", ["a bare text"], "invalid"),
    (422, "", [], "invalid"),
]


@pytest.mark.parametrize(("status", "message", "errors", "code"), REFUSALS)
async def test_refusal_has_a_stable_code_and_githubs_words(
    api: Api, github: Any, status: int, message: str, errors: list[Any], code: str
) -> None:
    body = {"message": message, "errors": errors}
    error = await failure(api, github, httpx.Response(status, json=body))
    assert isinstance(error, Refused)
    assert error.code == code
    assert message in str(error)


async def test_write_too_soon_after_another_is_a_limit(api: Api, github: Any) -> None:
    body = {"message": "Validation Failed", "errors": [entry("custom", "x", "was submitted too quickly")]}
    error = await failure(api, github, httpx.Response(422, json=body))
    assert isinstance(error, RetryAt)
    assert error.scope == "installation"


@pytest.mark.parametrize("status", [400, 406, 415, 418])
async def test_answer_nobody_planned_for_is_unexpected(api: Api, github: Any, status: int) -> None:
    assert isinstance(await failure(api, github, httpx.Response(status)), Unexpected)


@pytest.mark.parametrize(
    "body", [b"", b"[1]", b"\xff", b'{"message": 5}', b'{"message": ["a"]}', b"[" * 10_000]
)
async def test_error_with_a_strange_body_is_judged_by_its_status(api: Api, github: Any, body: bytes) -> None:
    assert isinstance(await failure(api, github, httpx.Response(404, content=body)), Gone)


GRAPHQL: list[tuple[list[dict[str, Any]], type[OutsideError]]] = [
    ([{"type": "NOT_FOUND", "message": "Could not resolve"}], Gone),
    ([{"type": "FORBIDDEN", "message": "Resource not accessible by integration"}], Denied),
    ([{"type": "UNPROCESSABLE", "message": "Pull request is already ready"}], Refused),
    ([{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}], RetryAt),
    ([{"message": "Something went wrong while executing your query."}], RetryAt),
    ([{"message": "Parse error"}], Unexpected),
    ([], Unexpected),
]


@pytest.mark.parametrize(("errors", "kind"), GRAPHQL)
def test_graphql_errors_have_the_same_meanings(
    errors: list[dict[str, Any]], kind: type[OutsideError]
) -> None:
    assert type(classify_graphql(errors, NOW)) is kind


def test_our_own_errors_pass_and_bugs_are_unexpected_without_their_text() -> None:
    ours = Gone("x")
    assert classify(ours, NOW) is ours
    bug = classify(ValueError("a secret in a text"), NOW)
    assert isinstance(bug, Unexpected)
    assert "secret" not in str(bug)


async def test_api_of_github_com_is_asked_for_the_newest_version(api: Api, github: Any) -> None:
    route = github.get("/repos/alice/demo/labels").respond(200, json=[])
    await api.call(Ask("GET", "/repos/alice/demo/labels", work_on(REPO)))
    sent = route.calls.last.request.headers
    assert sent["x-github-api-version"] == "2026-03-10"
    assert sent["authorization"] == "Bearer ghs_1_x.y.z"


@pytest.mark.parametrize(
    "answer",
    [{}, {"token": "ghs_x"}, {"token": "ghs_x", "expires_at": "soon"}, {"token": "ghs_x", "expires_at": 5}],
)
async def test_token_answer_without_a_token_is_unexpected(api: Api, answer: dict[str, Any]) -> None:
    with respx.mock(base_url=BASE) as router:
        router.post("/app/installations/5/access_tokens").respond(201, json=answer)
        with pytest.raises(Unexpected):
            await api.call(Ask("GET", "/repos/alice/demo", work_on(REPO)))


async def test_expiry_with_milliseconds_is_understood(api: Api) -> None:
    with respx.mock(base_url=BASE) as router:
        minting = router.post("/app/installations/5/access_tokens").respond(
            201, json={"token": "ghs_x", "expires_at": "2026-05-01T13:00:00.123Z"}
        )
        router.get("/repos/alice/demo").respond(200, json={})
        for _ in range(2):
            await api.call(Ask("GET", "/repos/alice/demo", work_on(REPO)))
        assert minting.call_count == 1
