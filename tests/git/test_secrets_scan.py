"""The last net: real formats in every wrapping, and silence over ordinary files."""

from __future__ import annotations

import base64
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from app.domain.secrets_scan import find_secrets, redact

# Cut in two, so that this file holds none of them.
SAMPLES = {
    "ghs": "ghs_" + "16C7e42F292c6912E7710c838347Ae178B4a",
    "ghs long": "ghs_" + "eyJhbGciOiJ.SUzI1NiJ9-eyJpc3_MiOiIx" + "." + "b2" * 60,
    "ghp": "ghp_" + "vT8kQ2mZr5Xw1Nc7Yb4Lp9Hs6Jd3Gf0AeUiB",
    "gho": "gho_" + "vT8kQ2mZr5Xw1Nc7Yb4Lp9Hs6Jd3Gf0AeUiB",
    "ghu": "ghu_" + "vT8kQ2mZr5Xw1Nc7Yb4Lp9Hs6Jd3Gf0AeUiB",
    "ghr": "ghr_" + "vT8kQ2mZr5Xw1Nc7Yb4Lp9Hs6Jd3Gf0AeUiB" * 2,
    "pat": "github_pat_" + "11ABCDEFG0" + "aB3_" * 18,
    "url": "https://x-access-" + "token:v1.1f699f1069f60aB3daB3d@github.com/a/b",
    "anthropic": "sk-ant-" + "api03-" + "xY9_-" * 18 + "AA",
    "openai": "sk-proj-" + "aB3_" * 12,
    "openai old": "sk-" + "aB3d" * 12,
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "aws secret": "aws_secret_access_" + "key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "pem": "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo",
    "pem escaped": '"-----BEGIN PRIVATE ' + 'KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEF"',
    "slack": "xoxb-" + "123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
    "slack hook": "https://hooks.slack" + ".com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    "google": "AIza" + "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    "google oauth": "GOCSPX-" + "aB3d" * 7,
    "stripe": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "npm": "npm_" + "aB3d" * 9,
    "pypi": "pypi-" + "AgEIcHlwaS5vcmc" + "aB3_" * 20,
    "jwt": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n",
    "azure": "DefaultEndpointsProtocol=https;Account" + "Key=" + "aB3d" * 21 + "Zz==",
    "azure client": "abc8Q" + "~" + "aB3d" * 8 + "xy",
    "gitlab": "glpat-" + "aB3d" * 5,
}  # fmt: skip
CANARY = "whk-9f3Kq7Zr2LmX5vB8"


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("wrap", ["plain", "reversed", "base64", "base64 twice", "base64 within", "joined"])
def test_known_format_is_found_and_redacted_in_every_wrapping(name: str, wrap: str) -> None:
    secret = SAMPLES[name]
    half = len(secret) // 2
    wrapped = {
        "plain": secret,
        "reversed": secret[::-1],
        "base64": base64.b64encode(secret.encode()).decode(),
        "base64 twice": base64.b64encode(base64.b64encode(secret.encode())).decode(),
        "base64 within": base64.encodebytes(
            b'{"key": "' + secret.encode() + b'", "more": "some other text"}'
        ).decode(),
        "joined": f'"{secret[:half]}" +\n    "{secret[half:]}"',
    }[wrap]
    if "\n" in secret and wrap == "joined":
        pytest.skip("a literal over two lines is no literal")
    text = f"first line\nkey: {wrapped}\nlast line\n"
    found = find_secrets(text)
    assert [finding.line for finding in found][:1] == [2]
    cleaned = redact(text)
    assert find_secrets(cleaned) == []
    assert cleaned.startswith("first line\nkey: ")
    assert cleaned.endswith("last line\n")


@pytest.mark.parametrize(
    "hidden",
    [
        CANARY, CANARY[::-1], " ".join(CANARY), "' + '".join(CANARY), '", "'.join([CANARY[:9], CANARY[9:]]),
        "\n".join([CANARY[:5], CANARY[5:11], CANARY[11:]]), CANARY.encode().hex(), CANARY.encode().hex().upper(),
        base64.b64encode(CANARY.encode()).decode(), base64.b64encode(b"x" + CANARY.encode() + b"yz").decode(),
        base64.urlsafe_b64encode(b"ab" + CANARY.encode()).decode(),
    ],
)  # fmt: skip
def test_own_secret_is_found_however_it_is_spread(hidden: str) -> None:
    found = find_secrets(f"nothing\nvalue = {hidden}\n", (CANARY,))
    assert [(finding.line, finding.kind) for finding in found] == [(2, "our own secret")]
    # In base64 the first characters may belong to what stood before the secret.
    assert 9 <= found[0].column <= 12
    assert find_secrets(f"nothing\nvalue = {hidden}\n") == []


def test_place_is_told_by_line_and_column_and_never_the_value() -> None:
    (finding,) = find_secrets("a\n  b " + SAMPLES["ghp"] + "\n")
    assert (finding.line, finding.column) == (2, 5)
    assert SAMPLES["ghp"] not in repr(finding)


def test_short_canaries_are_ignored() -> None:
    assert find_secrets("abc def", ("abc", "")) == []


def test_two_secrets_side_by_side_are_both_redacted() -> None:
    text = f"{SAMPLES['ghp']} {SAMPLES['google']}"
    assert redact(text) == "[redacted: GitHub token] [redacted: Google API key]"


ORDINARY = [
    "the-task-ant-farm sk-button sk-ant-design sk-loading-container-with-a-very-long-class-name-and-more",
    'if text.startswith("-----BEGIN PRIVATE KEY-----"):\n    raise ValueError("a private key")',
    "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
    "integrity sha512-" + base64.b64encode(bytes(range(64))).decode(),
    "da39a3ee5e6b4b0d3255bfef95601890afd80709 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "ghp_short gh_token = os.environ['GITHUB_TOKEN'] # ghs_ and ghp_ prefixes",
    "https://x-access-token:${TOKEN}@github.com/a/b and https://x-access-token:{token}@github.com",
    "123e4567-e89b-12d3-a456-426614174000 AKIA and npm_config_registry npm_lifecycle_event",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\n",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert find_secrets(text, (CANARY,)) == []
    assert redact(text) == text


def test_standard_library_holds_no_secret() -> None:
    files = sorted(Path(os.__file__).parent.glob("*.py"))[:120]
    found = {str(file): find_secrets(file.read_text("utf-8", "replace"), (CANARY,)) for file in files}
    assert {file: findings for file, findings in found.items() if findings} == {}


@pytest.mark.parametrize(
    "piece",
    [
        '"' + " " * 50, '"', "eyJ-aaaaaaaaaaaaa", "-eyJ", "x-access-token:", "ghs", "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----Comment:,,,,", "Comment:,,,\n", "A", "secret_access_key   ", "sk-proj-",
        "hooks.slack.com/services/T/////", "\n  aaaa", "a/b", "+" , "AAAA\n",
    ],
)  # fmt: skip
def test_time_grows_with_the_text_only(piece: str) -> None:
    for text in (
        piece * (200_000 // len(piece)),
        '-----BEGIN PRIVATE KEY-----"' + " " * 100_000 + piece * 10_000,
    ):
        started = time.process_time()
        find_secrets(text, (CANARY,))
        assert time.process_time() - started < 5


@given(st.text(alphabet="\"' +\\\n\tab=./-_0A", max_size=300))
def test_redacting_never_adds_or_loses_other_text(text: str) -> None:
    assert redact(text, (CANARY,)) == text
