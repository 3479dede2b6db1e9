"""What a check says, and how checks are run: all of them, each within its time, whatever the others do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.domain.errors import IssuewrightError, SettingsError
from app.observability.redaction import redact


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Verdict:
    """`cure` says what to do; empty when there is nothing to do."""

    state: State
    detail: str
    cure: str = ""


@dataclass(frozen=True)
class Check:
    name: str
    probe: Callable[[], Awaitable[Verdict]]
    limit_s: float = 10.0


@dataclass(frozen=True)
class Checked:
    name: str
    verdict: Verdict

    def as_json(self) -> dict[str, str]:
        verdict = self.verdict
        return {"name": self.name, "state": verdict.state, "detail": verdict.detail, "cure": verdict.cure}


def ok(detail: str) -> Verdict:
    return Verdict(State.OK, detail)


def warning(detail: str, cure: str = "") -> Verdict:
    return Verdict(State.WARNING, detail, cure)


def failed(detail: str, cure: str = "") -> Verdict:
    return Verdict(State.FAILED, detail, cure)


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict for several findings about one thing: the worst ones, put together."""
    for state in (State.FAILED, State.WARNING):
        bad = [one for one in verdicts if one.state is state]
        if bad:
            cures = list(dict.fromkeys(one.cure for one in bad if one.cure))
            return Verdict(state, "; ".join(one.detail for one in bad), "; ".join(cures))
    return ok("; ".join(one.detail for one in verdicts))


async def run_checks(checks: Sequence[Check]) -> list[Checked]:
    """In the order given; they run at the same time."""
    return list(await asyncio.gather(*(_run(check) for check in checks)))


async def _run(check: Check) -> Checked:
    try:
        async with asyncio.timeout(check.limit_s):
            verdict = await check.probe()
    except TimeoutError:
        verdict = failed(f"no verdict within {check.limit_s:g} s", "look whether it hangs")
    except SettingsError as error:
        verdict = failed("; ".join(error.problems))
    except IssuewrightError as error:
        verdict = failed(str(error))
    except Exception as error:  # noqa: BLE001 - a check that breaks is a finding, and the others must still be made
        verdict = failed(f"{type(error).__name__}: {(str(error).strip() or 'no details').splitlines()[0]}")
    return Checked(check.name, Verdict(verdict.state, _line(verdict.detail), _line(verdict.cure)))


def _line(text: str) -> str:
    """One line without secrets and control characters: much of it is other people's text."""
    return "".join(char if char.isprintable() else " " for char in redact(text)).strip()
