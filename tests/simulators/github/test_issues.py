"""Issues, comments, labels and reactions: limits and unusual states."""

import pytest

from tests.simulators.github.conftest import REPO, Stage

LONG = "Body is too long (maximum is 65536 characters)"


def test_text_when_at_the_limit_then_taken_and_over_it_422(stage: Stage) -> None:
    number = stage.control.open_issue(REPO, "bob", "T")["number"]
    with stage.client() as http:
        url = f"/repos/{REPO}/issues/{number}/comments"
        assert http.post(url, json={"body": "🙂" * 65536}).status_code == 201
        over = http.post(url, json={"body": "x" * 65537})
        assert (over.status_code, over.json()["message"]) == (422, LONG)
        assert http.patch(f"/repos/{REPO}/issues/{number}", json={"body": "x" * 65537}).status_code == 422
        assert http.post(f"/repos/{REPO}/issues", json={"title": "x" * 257}).status_code == 422
        assert http.post(f"/repos/{REPO}/issues", json={"title": " "}).status_code == 422


def test_labels_when_more_than_a_hundred_then_422(stage: Stage) -> None:
    number = stage.control.open_issue(REPO, "bob", "T")["number"]
    with stage.client() as http:
        url = f"/repos/{REPO}/issues/{number}/labels"
        assert http.post(url, json={"labels": [f"l{i}" for i in range(101)]}).status_code == 422
        assert http.post(url, json=["a", "b"]).status_code == 200
        assert http.delete(f"{url}/nothing").json()["message"] == "Label does not exist"


def test_label_when_it_exists_in_another_case_then_422(stage: Stage) -> None:
    with stage.client() as http:
        answer = http.post(f"/repos/{REPO}/labels", json={"name": "BUG", "color": "ffffff"})
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"resource": "Label", "code": "already_exists", "field": "name"}]


def test_issue_when_deleted_transferred_locked_or_disabled_then_githubs_code(stage: Stage) -> None:
    control = stage.control
    control.create_repo("alice", "other", {"a": "b"})
    deleted, moved, locked, plain = (control.open_issue(REPO, "bob", f"T{i}")["number"] for i in range(4))
    control.delete_issue(REPO, deleted, "alice")
    target = control.transfer_issue(REPO, moved, "alice", "alice/other")
    control.lock_issue(REPO, locked, "alice")
    with stage.client() as http:
        assert http.get(f"/repos/{REPO}/issues/{deleted}").status_code == 410
        answer = http.get(f"/repos/{REPO}/issues/{moved}")
        assert answer.status_code == 301
        assert http.get(answer.headers["location"]).json()["id"] == target["id"]
        answer = http.post(f"/repos/{REPO}/issues/{locked}/comments", json={"body": "x"})
        assert answer.status_code == 403
        assert "locked" in answer.json()["message"]
        control.update_repo(REPO, has_issues=False)
        assert http.get(f"/repos/{REPO}/issues/{plain}").status_code == 410
        assert http.get(f"/repos/{REPO}/issues/999").status_code == 404


def test_repository_when_archived_then_writes_are_403(stage: Stage) -> None:
    stage.control.archive_repo(REPO, "alice")
    with stage.client() as http:
        answer = http.post(f"/repos/{REPO}/issues", json={"title": "T"})
        assert http.get(f"/repos/{REPO}").json()["archived"]
    assert (answer.status_code, answer.json()["message"]) == (403, "Repository was archived so is read-only.")


@pytest.mark.parametrize("rest", ["", "/issues/1", "/git/ref/heads/main?x=1"])
def test_repository_when_renamed_then_301_by_id(stage: Stage, rest: str) -> None:
    stage.control.open_issue(REPO, "bob", "T")
    stage.control.rename_repo(REPO, "alice", "renamed")
    with stage.client() as http:
        answer = http.get(f"/repos/{REPO}{rest}")
        assert answer.status_code == 301
        assert (
            f"/repositories/{stage.repo['id']}{rest.split('?', maxsplit=1)[0]}" in answer.headers["location"]
        )
        assert http.get(answer.headers["location"]).status_code == 200
        assert http.get("/repos/alice/renamed").json()["id"] == stage.repo["id"]


def test_reaction_when_given_twice_then_200_and_one(stage: Stage) -> None:
    comment = stage.control.comment(REPO, stage.control.open_issue(REPO, "bob", "T")["number"], "bob", "Hi")
    with stage.client() as http:
        url = f"/repos/{REPO}/issues/comments/{comment['id']}/reactions"
        assert http.post(url, json={"content": "eyes"}).status_code == 201
        assert http.post(url, json={"content": "eyes"}).status_code == 200
        assert http.post(url, json={"content": "shrug"}).status_code == 422
        assert [one["content"] for one in http.get(url).json()] == ["eyes"]
        assert http.get(f"/repos/{REPO}/issues/comments/{comment['id']}").json()["reactions"]["eyes"] == 1


def test_comments_when_many_then_paged_with_links(stage: Stage) -> None:
    number = stage.control.open_issue(REPO, "bob", "T")["number"]
    stage.control.fill_comments(REPO, number, "bob", 150)
    with stage.client() as http:
        first = http.get(f"/repos/{REPO}/issues/{number}/comments", params={"per_page": 100})
        second = http.get(first.links["next"]["url"])
    assert (len(first.json()), len(second.json())) == (100, 50)
    assert "next" not in second.links
    assert first.links["last"]["url"].endswith("page=2")


def test_get_when_unchanged_then_304_and_not_counted(stage: Stage) -> None:
    with stage.client() as http:
        first = http.get(f"/repos/{REPO}")
        again = http.get(f"/repos/{REPO}", headers={"If-None-Match": first.headers["etag"]})
        last = http.get(f"/repos/{REPO}")
    assert again.status_code == 304
    assert int(last.headers["x-ratelimit-used"]) == int(first.headers["x-ratelimit-used"]) + 1
    assert first.headers["x-github-request-id"]


def test_body_when_not_json_then_400(stage: Stage) -> None:
    with stage.client() as http:
        answer = http.post(f"/repos/{REPO}/issues", content=b"{nope")
        plain = http.post(f"/repos/{REPO}/issues", json={"title": 3})
    assert (answer.status_code, answer.json()["message"]) == (400, "Problems parsing JSON")
    assert plain.status_code == 422
