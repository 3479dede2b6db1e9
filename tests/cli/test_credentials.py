"""`issuewright credentials`: keys go in by standard input and never come out."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.cli.running import COMMAND, Answer, Issuewright

SECRET = "sk-canary-0123456789-0123456789-wxyz"
KEY = "key-" + "a" * 40
NEW = "new-" + "b" * 40


def put(issuewright: Issuewright, secret: str, *arguments: str, key: str | None = KEY) -> Answer:
    done = subprocess.run(
        [*COMMAND, "credentials", "set", *arguments],
        env=issuewright.environment(CREDENTIALS_KEY=key),
        cwd=issuewright.home,
        input=secret,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr, 0)


def test_key_is_stored_listed_renewed_and_removed_and_never_shown(
    issuewright: Issuewright, migrated: Path
) -> None:
    url = "https://models.example.org"
    said = [put(issuewright, SECRET + "\n", "model", "--user", "11", "--base-url", url)]
    assert (said[0].code, said[0].err) == (0, "")
    said.append(issuewright.run("credentials", "list", "--json", CREDENTIALS_KEY=KEY))
    (item,) = json.loads(said[-1].out)["items"]
    assert (item["kind"], item["scope"], item["owner_id"], item["base_url"]) == ("model", "user", 11, url)
    assert (item["hint"], item["state"]) == ("…wxyz", "ok")
    for _ in range(2):
        said.append(issuewright.run("credentials", "rotate", CREDENTIALS_KEY=f"{NEW},{KEY}"))
        assert said[-1].code == 0
    assert "is now under the first key" in said[-2].out
    assert said[-1].out == "nothing to do\n"
    said.append(issuewright.run("credentials", "list", CREDENTIALS_KEY=NEW))
    assert "\tok\t" in said[-1].out
    said.append(issuewright.run("credentials", "list", CREDENTIALS_KEY=KEY))
    assert "unreadable" in said[-1].out
    said.append(issuewright.run("credentials", "remove", "model", "--user", "11"))
    assert said[-1].code == 0
    said.append(issuewright.run("credentials", "remove", "model", "--user", "11"))
    assert said[-1].code == 1
    assert [one for one in said if SECRET[:12] in one.out + one.err] == []
    assert SECRET.encode() not in migrated.read_bytes()


def test_what_is_wrong_is_one_line_that_says_what_to_do(issuewright: Issuewright, migrated: Path) -> None:
    secret = SECRET
    cases = [
        (put(issuewright, secret, "model", "--user", "11", key=None), "CREDENTIALS_KEY"),
        (put(issuewright, secret, "model", "--user", "11", key="short"), "CREDENTIALS_KEY"),
        (put(issuewright, secret, "model"), "--user ID or --installation ID"),
        (put(issuewright, "", "model", "--user", "11"), "standard input"),
        (
            put(issuewright, secret, "model", "--user", "11", "--base-url", "http://169.254.169.254"),
            "no key may",
        ),
        (issuewright.run("credentials", "rotate"), "CREDENTIALS_KEY"),
    ]
    for answer, words in cases:
        assert answer.code == 2, answer.err
        assert words in " ".join(answer.err.replace("│", " ").split())
        assert secret[:12] not in answer.err
