"""What may be a credential, where it may be sent, and how much of it may be shown."""

from __future__ import annotations

import pytest

from app.domain.credentials import BadCredential, check_base_url, check_secret, key_owner, secret_hint


@pytest.mark.parametrize(
    "url",
    [
        "https://models.example.org",
        "https://models.example.org:8443/v1/",
        "https://10.1.2.3/proxy",
        "http://127.0.0.1:4000",
        "http://localhost:4000/",
        "http://[::1]:4000",
    ],
)
def test_address_by_https_or_on_this_machine_is_taken(url: str) -> None:
    assert check_base_url(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "http://models.example.org",
        "https://169.254.169.254/latest",
        "http://169.254.169.254",
        "https://[fe80::1]",
        "https://[::ffff:169.254.169.254]",
        "https://[2002:a9fe:a9fe::1]",
        "https://[fd00:ec2::254]",
        "https://100.100.100.200",
        "https://metadata.google.internal",
        "https://metadata",
        "https://2852039166",
        "https://0xa9fea9fe",
        "https://0251.0376.0251.0376",
        "https://169.254.43518",
        "https://0.0.0.0",
        "http://0.0.0.0:80",
        "https://224.0.0.1",
        "https://u:p@models.example.org",
        "https://models.example.org/?a=b",
        "https://models.example.org/#a",
        "https://models.example.org:port",
        "https://models.example.org/a b",
        "https://[::1",
        "https://",
        "ftp://models.example.org",
        "models.example.org",
        "",
    ],
)
def test_any_other_address_is_refused(url: str) -> None:
    with pytest.raises(BadCredential):
        check_base_url(url)


def test_line_end_around_a_secret_is_not_part_of_it() -> None:
    assert check_secret("  sk-1\r\n") == "sk-1"


@pytest.mark.parametrize("text", ["", "\n", "two words", "a\nb", "caf\u00e9", "a\x00b", "x" * 5000])
def test_what_can_be_no_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(BadCredential) as refused:
        check_secret(text)
    assert not text.strip() or text.strip() not in str(refused.value)


def test_hint_shows_the_end_of_a_long_secret_and_nothing_of_a_short_one() -> None:
    assert secret_hint("k" * 30 + "wxyz") == "…wxyz"
    assert secret_hint("short-secret") == "…"


def test_owner_is_told_in_words() -> None:
    assert key_owner("user", "alice") == "of alice"
    assert key_owner("installation", "alice") == "of the installation"
    assert key_owner("operator", "alice") == "of the operator"
    assert key_owner(None, "alice") == ""
