"""Pages for people: there, complete, and never markup that somebody else wrote."""

import json
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest

from simulators.github.web.markdown import render
from tests.simulators.github.conftest import REPO, Stage

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture
def browser(stage: Stage) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=stage.url, trust_env=False) as found:
        yield found


def test_pages_when_visited_then_all_there(stage: Stage, browser: httpx.Client) -> None:
    issue = stage.control.open_issue(REPO, "bob", "Title", "- [x] done\n- [ ] open", ["agent"])["number"]
    stage.control.comment(REPO, issue, "bob", "Some **bold** words")
    number = stage.pull()
    stage.control.review(
        REPO, number, "carol", "REQUEST_CHANGES", "No", [{"path": "new.txt", "body": "Why?"}]
    )
    run = stage.control.create_check(
        REPO,
        stage.app["id"],
        "Issuewright",
        stage.head("feature/1-x"),
        conclusion="success",
        title="Fine",
        summary="All *good*",
    )
    sha = stage.head()
    expected = {
        "/": REPO,
        "/alice": "demo",
        f"/{REPO}": "<h1>Demo</h1>",
        f"/{REPO}/issues": "Title",
        f"/{REPO}/issues/{issue}": "<strong>bold</strong>",
        f"/{REPO}/pulls": "A pull request",
        f"/{REPO}/pull/{number}": "changes requested",
        f"/{REPO}/pull/{number}/commits": "Update files",
        f"/{REPO}/pull/{number}/files": "+new",
        f"/{REPO}/pull/{number}/checks": "Issuewright",
        f"/{REPO}/pull/{number}.diff": "diff --git",
        f"/{REPO}/blob/main/src/app.py": "hello",
        f"/{REPO}/blob/feature/1-x/new.txt": "new",
        f"/{REPO}/raw/main/README.md": "# Demo",
        f"/{REPO}/tree/main/src": "app.py",
        f"/{REPO}/commit/{sha}": "Initial commit",
        f"/{REPO}/runs/{run['id']}": "<em>good</em>",
        "/apps/issuewright": "Issuewright",
        "/_static/style.css": "prefers-color-scheme: dark",
    }
    for path, text in expected.items():
        answer = browser.get(path)
        assert answer.status_code == 200, path
        assert text in answer.text, path
    page = browser.get(f"/{REPO}/issues/{issue}").text
    assert 'type="checkbox" disabled checked' in page
    assert "agent" in page
    for url in (run["html_url"], stage.control.issue(REPO, number)["html_url"]):
        assert browser.get(url).status_code == 200
    assert browser.get(f"/{REPO}/issues/999").status_code == 404
    assert browser.get("/alice/none").status_code == 404


def test_text_when_hostile_then_shown_as_text(stage: Stage, browser: httpx.Client) -> None:
    number = stage.control.open_issue(REPO, "bob", EVIL, EVIL, [EVIL[:40]])["number"]
    stage.control.comment(REPO, number, "bob", f"{EVIL}\n\n[x](javascript:alert(1))")
    stage.control.push(REPO, "alice", "main", {"evil.md": EVIL, "<b>.txt": EVIL})
    for path in (f"/{REPO}/issues/{number}", f"/{REPO}/issues", f"/{REPO}/blob/main/evil.md", f"/{REPO}"):
        answer = browser.get(path)
        assert "<script" not in answer.text
        assert "<img" not in answer.text
        assert 'href="javascript' not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("text", "shown", "hidden"),
    [
        ("<!-- issuewright:spec=1 part=status -->\nHello", "Hello", "issuewright:spec"),
        ("before <!-- secret --> after", "after", "secret"),
        ("<details><summary>More</summary>\n\ntext\n\n</details>", "<summary>More</summary>", "&lt;details"),
        ("<details onclick=x>", "&lt;details onclick", "<details"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "<td>1</td>", "|"),
        ("~~gone~~", "<s>gone</s>", "~"),
        ("![pic](http://x.example/p.png)", "pic", "<img"),
    ],
)
def test_markdown_when_rendered_then_as_on_github(text: str, shown: str, hidden: str) -> None:
    page = render(text)
    assert shown in page
    assert hidden not in page


def test_manifest_when_submitted_then_code_becomes_a_working_app(stage: Stage, browser: httpx.Client) -> None:
    manifest = {
        "name": "Fresh App",
        "url": "https://example.com",
        "redirect_url": "http://127.0.0.1:1/done?x=1",
        "hook_attributes": {"url": stage.receiver.url},
        "default_events": ["issues"],
        "default_permissions": {"issues": "write"},
    }
    stage.control.create_org("fictive-org", ["alice"])
    form = {"manifest": json.dumps(manifest)}
    answer = browser.post("/organizations/fictive-org/settings/apps/new?state=abc", data=form)
    assert answer.status_code == 302
    query = parse_qs(urlsplit(answer.headers["location"]).query)
    assert (query["x"], query["state"]) == (["1"], ["abc"])
    made = browser.post(f"/app-manifests/{query['code'][0]}/conversions")
    assert made.status_code == 201
    assert made.json()["owner"]["login"] == "fictive-org"
    assert browser.post(f"/app-manifests/{query['code'][0]}/conversions").status_code == 404
    now = int(stage.sim.platform.world.now().timestamp())
    claims = {"iss": str(made.json()["id"]), "iat": now - 10, "exp": now + 300}
    token = jwt.encode(claims, made.json()["pem"], algorithm="RS256")
    own = browser.get("/app", headers={"Authorization": f"Bearer {token}"}).json()
    assert own["permissions"] == {"metadata": "read", "issues": "write"}
    assert browser.post("/settings/apps/new", data={"manifest": "[]"}).status_code == 422


@pytest.mark.parametrize("kind", ["issues", "pull"])
def test_form_below_a_conversation_is_sent_then_its_comment_is_there_and_heard_of(
    stage: Stage, browser: httpx.Client, kind: str
) -> None:
    number = stage.pull() if kind == "pull" else stage.control.open_issue(REPO, "bob", "Title", "")["number"]
    page = f"/{REPO}/{kind}/{number}"
    assert f'action="{page}/comments"' in browser.get(page).text
    answer = browser.post(f"{page}/comments", data={"by": "carol", "body": f"/agent help {EVIL}"})
    assert (answer.status_code, answer.headers["location"]) == (303, page)
    said = stage.control.issue(REPO, number)["comment_list"]
    assert [(one["user"]["login"], one["body"]) for one in said] == [("carol", f"/agent help {EVIL}")]
    stage.control.wait_for_delivery("issue_comment", "created")
    assert "<script>" not in browser.get(page).text
    for wrong in ({"by": "carol", "body": " "}, {"by": "nobody", "body": "x"}, {"body": "x"}, {}):
        browser.post(f"{page}/comments", data=wrong)
    assert len(stage.control.issue(REPO, number)["comment_list"]) == 1
