"""Webhooks: signed, shaped, sent once, held, lost, doubled, redelivered."""

import hashlib
import hmac
import json
import uuid

from tests.simulators.github.conftest import REPO, SECRET, Stage


def test_delivery_when_sent_then_signed_with_all_headers(stage: Stage) -> None:
    stage.control.open_issue(REPO, "bob", "Ünïcode title")
    stage.wait(lambda: stage.receiver.events("issues", "opened"))
    got = next(one for one in stage.receiver.got if one.event == "issues")
    digest = hmac.new(SECRET.encode(), got.body, hashlib.sha256).hexdigest()
    assert got.headers["x-hub-signature-256"] == f"sha256={digest}"
    assert got.headers["x-hub-signature"].startswith("sha1=")
    assert str(uuid.UUID(got.headers["x-github-delivery"])) == got.headers["x-github-delivery"]
    assert got.headers["user-agent"].startswith("GitHub-Hookshot/")
    assert got.headers["x-github-hook-installation-target-id"] == str(stage.app["id"])
    assert got.headers["x-github-hook-installation-target-type"] == "integration"
    assert got.headers["x-github-hook-id"].isdigit()
    assert got.body == json.dumps(got.json, separators=(",", ":"), ensure_ascii=False).encode()
    assert got.json["installation"]["id"] == stage.installation
    assert got.json["sender"]["login"] == "bob"
    assert "organization" not in got.json


def test_issue_when_opened_with_labels_then_opened_and_labeled(stage: Stage) -> None:
    stage.control.open_issue(REPO, "bob", "T", labels=["agent", "bug"])
    stage.wait(lambda: len(stage.receiver.events("issues")) == 3)
    labeled = stage.receiver.events("issues", "labeled")
    assert sorted(one["label"]["name"] for one in labeled) == ["agent", "bug"]
    assert len(labeled[0]["issue"]["labels"]) == 2


def test_organization_when_owner_then_in_the_body(stage: Stage) -> None:
    control = stage.control
    control.create_org("fictive-org", ["alice"])
    control.create_repo("fictive-org", "tool", {"a": "b"})
    control.install(stage.app["id"], "fictive-org", by="alice")
    control.open_issue("fictive-org/tool", "bob", "T")
    event = stage.wait(lambda: stage.receiver.events("issues", "opened"))[0]
    assert event["organization"]["login"] == "fictive-org"


def test_event_when_not_subscribed_or_suspended_then_not_sent(stage: Stage) -> None:
    stage.control.update_app(stage.app["id"], events=["push"])
    stage.control.accept_permissions(stage.installation, "alice")
    stage.control.open_issue(REPO, "bob", "T")
    stage.control.push(REPO, "alice", "main", {"x": "y"})
    stage.wait(lambda: stage.receiver.events("push"))
    assert not stage.receiver.events("issues")
    stage.control.suspend(stage.installation, "alice")
    stage.control.push(REPO, "alice", "main", {"x": "z"})
    stage.wait(lambda: stage.receiver.events("installation", "suspend"))
    assert len(stage.control.deliveries("push")) == 1


def test_app_when_it_acts_then_its_own_events_name_the_bot(stage: Stage) -> None:
    number = stage.control.open_issue(REPO, "bob", "T")["number"]
    with stage.client() as http:
        http.post(f"/repos/{REPO}/issues/{number}/comments", json={"body": "Hi"})
    event = stage.wait(lambda: stage.receiver.events("issue_comment"))[0]
    assert event["sender"]["login"] == "issuewright[bot]"
    assert event["sender"]["type"] == "Bot"
    assert event["comment"]["performed_via_github_app"]["id"] == stage.app["id"]


def test_delivery_when_refused_then_listed_failed_and_redelivered_under_its_guid(stage: Stage) -> None:
    stage.wait(lambda: stage.receiver.events("installation"))
    stage.receiver.answer = 503
    stage.control.open_issue(REPO, "bob", "T")
    stage.control.wait_for_delivery("issues", "opened")
    stage.receiver.answer = 202
    with stage.as_app() as http:
        failed = http.get("/app/hook/deliveries", params={"status": "failure"}).json()
        assert [(one["event"], one["status_code"]) for one in failed] == [("issues", 503)]
        full = http.get(f"/app/hook/deliveries/{failed[0]['id']}").json()
        assert full["request"]["payload"]["issue"]["title"] == "T"
        assert http.post(f"/app/hook/deliveries/{failed[0]['id']}/attempts").status_code == 202
        stage.wait(lambda: len(stage.receiver.events("issues")) == 2)
        stage.wait(lambda: len(http.get("/app/hook/deliveries").json()) == 3)
        listed = http.get("/app/hook/deliveries").json()
    assert listed[0]["redelivery"]
    assert listed[0]["guid"] == failed[0]["guid"]
    assert listed[0]["status"] == "OK"


def test_deliveries_when_many_then_paged_by_cursor(stage: Stage) -> None:
    for index in range(5):
        stage.control.open_issue(REPO, "bob", f"T{index}")
    stage.wait(lambda: len(stage.receiver.got) == 6)
    with stage.as_app() as http:
        stage.wait(lambda: len(http.get("/app/hook/deliveries").json()) == 6)
        found = []
        page = http.get("/app/hook/deliveries", params={"per_page": 4})
        found += page.json()
        found += http.get(page.links["next"]["url"]).json()
    assert len({one["id"] for one in found}) == 6
    assert [one["id"] for one in found] == sorted((one["id"] for one in found), reverse=True)


def test_webhooks_when_held_and_shuffled_then_all_arrive_on_release(stage: Stage) -> None:
    stage.wait(lambda: stage.receiver.events("installation"))
    stage.control.hold_webhooks("issues")
    for index in range(4):
        stage.control.open_issue(REPO, "bob", f"T{index}")
    assert not stage.receiver.events("issues")
    assert stage.control.release_webhooks(shuffle=True) == 4
    stage.wait(lambda: len(stage.receiver.events("issues")) == 4)


def test_webhooks_when_dropped_then_lost_or_listed_as_failed(stage: Stage) -> None:
    stage.control.wait_for_delivery("installation")
    stage.control.drop_webhooks("issues", times=1)
    stage.control.drop_webhooks("issues", times=1, record=True)
    stage.control.open_issue(REPO, "bob", "lost")
    stage.control.open_issue(REPO, "bob", "failed")
    with stage.as_app() as http:
        failed = [one for one in http.get("/app/hook/deliveries").json() if one["status"] != "OK"]
    assert [one["event"] for one in failed] == ["issues"]
    assert not stage.receiver.events("issues")


def test_webhooks_when_duplicated_then_one_guid_twice(stage: Stage) -> None:
    stage.control.duplicate_webhooks("issues", times=1)
    stage.control.open_issue(REPO, "bob", "T")
    stage.wait(lambda: len(stage.receiver.events("issues")) == 2)
    guids = {one.headers["x-github-delivery"] for one in stage.receiver.got if one.event == "issues"}
    assert len(guids) == 1


def test_button_when_pressed_then_only_its_app_hears(stage: Stage) -> None:
    other = stage.control.create_app("Other", "alice", {"checks": "write"}, ["check_run"])
    stage.control.install(other["id"], "alice")
    run = stage.control.create_check(REPO, stage.app["id"], "Issuewright", stage.head())
    stage.control.press_button(run["id"], "carol", "retry")
    event = stage.wait(lambda: stage.receiver.events("check_run", "requested_action"))[0]
    assert event["requested_action"] == {"identifier": "retry"}
    assert event["sender"]["login"] == "carol"
    assert len(stage.control.deliveries("check_run", "requested_action")) == 1


def test_event_when_its_permission_was_taken_away_then_not_sent(stage: Stage) -> None:
    stage.control.accept_permissions(stage.installation, "alice", {"metadata": "read", "contents": "read"})
    stage.control.open_issue(REPO, "bob", "T")
    stage.control.push(REPO, "alice", "main", {"x": "y"})
    stage.wait(lambda: stage.receiver.events("push"))
    assert not stage.control.deliveries("issues")
