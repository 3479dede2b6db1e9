"""What a finished turn means for the task (pure)."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from claude_agent_sdk import ClaudeSDKError, ProcessError, ResultMessage

from sandbox_payload.agent import Gone
from sandbox_payload.wire import ExitCode, ManifestStatus

_BY_SUBTYPE = {
    "error_max_turns": ("max_turns", "The agent used up its turns."),
    "error_max_budget_usd": ("budget", "The budget for the model is used up."),
    "error_max_structured_output_retries": (
        "structured_output",
        "The agent gave no valid structured answer.",
    ),
}
_REFUSAL = re.compile(r"\b(safeguards?|usage policy|refus(al|ed))\b", re.IGNORECASE)
_BUDGET = re.compile(r"\bbudget\b", re.IGNORECASE)


@dataclass(frozen=True)
class Outcome:
    """`reason` is short and stable, `detail` a sentence for people, `exit_code` how the payload ends on it."""

    status: ManifestStatus
    reason: str = ""
    detail: str = ""
    exit_code: ExitCode = ExitCode.OK


COMPLETED = Outcome("completed")
TIME_LIMIT = Outcome(
    "failed", "time_limit", "The task's time was used up before it was done.", ExitCode.TIME_LIMIT
)
TERMINATED = Outcome("cancelled", "terminated", "The sandbox was asked to stop.", ExitCode.TERMINATED)


def judge_result(result: ResultMessage, last_text: str) -> Outcome:
    """The error flag counts, whatever the subtype says: a refused model request is "success" with the flag set."""
    said = (result.result or "").strip() or " ".join(result.errors or []).strip()
    if result.subtype in _BY_SUBTYPE:
        reason, detail = _BY_SUBTYPE[result.subtype]
        return _failed(reason, detail)
    if result.is_error or result.subtype != "success":
        detail = said if said.lower() != "success" else ""
        return _failed(_reason(result, detail), detail or f"The agent's turn ended with {result.subtype}.")
    if result.stop_reason == "refusal":
        return _failed("refusal", said or "The model refused to go on.")
    if not said and not last_text.strip():
        return _failed("empty_answer", "The model ended its turn without a word.")
    return COMPLETED


def judge_gone(gone: Gone) -> Outcome:
    """Names how the command line ended; a negative code is the signal that killed it."""
    code = gone.exit_code
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return _failed("cli_killed", f"The agent's process was killed by {name}. {gone.detail}")
    return _failed("cli_ended", f"The agent's process ended (exit code {code}). {gone.detail}")


def judge_not_started(error: ClaudeSDKError) -> Outcome:
    """What stops it from starting does so the next time, too; but whoever kills it (a want of memory) may not."""
    code = error.exit_code if isinstance(error, ProcessError) else None
    if code is not None and code < 0:
        return judge_gone(Gone(code, str(error)))
    return _failed("agent_not_started", str(error))


def _reason(result: ResultMessage, detail: str) -> str:
    if result.stop_reason == "refusal" or _REFUSAL.search(detail):
        return "refusal"
    if result.api_error_status == 403 and _BUDGET.search(detail):
        return "budget"
    if result.api_error_status is not None or result.terminal_reason == "api_error" or "API Error" in detail:
        return "model_error"
    return result.terminal_reason or result.subtype


def _failed(reason: str, detail: str) -> Outcome:
    return Outcome("failed", reason[:100], detail[:4_000], ExitCode.AGENT_FAILED)
