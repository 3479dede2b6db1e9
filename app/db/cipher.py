"""What encrypts stored credentials: CREDENTIALS_KEY, several while one is replaced. The first encrypts, all decrypt."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.domain.errors import IssuewrightError, SettingsError


class Unreadable(IssuewrightError):
    """None of the keys opens it, or what it says is not what stands beside it."""


class Cipher:
    """Authenticated encryption (Fernet: AES-128-CBC and HMAC-SHA-256) under keys derived from the operator's texts."""

    def __init__(self, keys: Sequence[str]) -> None:
        """`keys` are used as they are, not stretched: settings refuse short ones. Without keys nothing can be stored or
        read.
        """
        ciphers = [Fernet(_derive(key)) for key in keys]
        self._first = ciphers[0] if ciphers else None
        self._all = MultiFernet(ciphers) if ciphers else None

    def __bool__(self) -> bool:
        """Whether there is a key."""
        return self._first is not None

    def seal(self, *values: str | int | None) -> str:
        """Raises SettingsError when there is no key."""
        if self._first is None:
            raise SettingsError(
                "CREDENTIALS_KEY: not set, so no credential can be stored; make one with `openssl rand -hex 32`"
            )
        return self._first.encrypt(json.dumps(values).encode()).decode()

    def open(self, sealed: str) -> list[str | int | None]:
        """What was sealed. Raises Unreadable."""
        if self._all is None:
            raise Unreadable("CREDENTIALS_KEY is not set")
        try:
            values = json.loads(self._all.decrypt(sealed.encode()))
        except InvalidToken:
            raise Unreadable("no key in CREDENTIALS_KEY opens it") from None
        return list(values)

    def is_under_first_key(self, sealed: str) -> bool:
        try:
            return self._first is not None and bool(self._first.decrypt(sealed.encode()))
        except InvalidToken:
            return False


def _derive(key: str) -> bytes:
    derived = HKDF(SHA256(), 32, salt=None, info=b"issuewright credentials").derive(key.encode())
    return base64.urlsafe_b64encode(derived)
