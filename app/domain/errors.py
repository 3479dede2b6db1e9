"""What can go wrong outside, sorted by what to do about it. The tree that every adapter raises from."""

from __future__ import annotations

from datetime import datetime


class IssuewrightError(Exception):
    """Base of all errors raised on purpose."""


class SettingsError(IssuewrightError):
    """Missing or wrong settings. `problems` holds one readable line each; the process exits with 2."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class OutsideError(IssuewrightError):
    """A call to GitHub, a sandbox provider or the model did not do what was asked."""


class RetryAt(OutsideError):
    """Not now: try again at `at` (aware UTC). `scope` says what must wait: this call or the installation."""

    def __init__(self, message: str, at: datetime, scope: str = "call") -> None:
        super().__init__(message)
        self.at = at
        self.scope = scope


class Gone(OutsideError):
    """The thing does not exist (any more) or can't be seen: 404, 410, 451."""


class Denied(OutsideError):
    """Not allowed, and asking again will not help: permission missing, archived, locked, suspended.

    `reason` is short and stable (`permission`, `archived`, `locked`, `suspended`, `blocked`, `credentials`,
    `sandbox`, `sandbox_key`: the operator's key at the sandbox provider, `account`: somebody's own account there).
    """

    def __init__(self, message: str, reason: str = "permission") -> None:
        super().__init__(message)
        self.reason = reason


class Refused(OutsideError):
    """The request was understood and refused (422, a rejected push): `code` is GitHub's, the text is theirs."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Unexpected(OutsideError):
    """An answer nobody planned for: a bug of ours or theirs. Bounded retries, then a person is told."""


class TooMuch(OutsideError):
    """More came than may be; the rest was not read."""


class Fenced(IssuewrightError):
    """Another worker holds the lease now, or the state moved on: stop silently, change nothing."""


class ResultRefused(IssuewrightError):
    """A sandbox's result broke a rule. `code` is stable, `detail` may be shown to people."""

    def __init__(self, code: str, detail: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.paths = paths


def refuses_credentials(error: BaseException) -> bool:
    """Whether GitHub takes the App's key or a token of it no more: the operator's to mend, and no word about the one
    thing that was asked for.
    """
    return isinstance(error, Denied) and error.reason == "credentials"
