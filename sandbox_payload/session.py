"""Which session the agent starts with: a new one, one brought along, or the one a crashed payload was in."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from sandbox_payload.inputs import Inputs
from sandbox_payload.progress import Progress
from sandbox_payload.reports import Report
from sandbox_payload.spending import read_cost_before
from sandbox_payload.state import config_directory
from sandbox_payload.transcript import BadTranscript, SessionTooLarge, has_session, restore_transcript
from sandbox_payload.wire import EventType

_AFTER_A_CRASH = (
    "[Notice from Issuewright itself, not from a person:]\n"
    "The program around you was restarted while you worked. Look at the state of the work tree, then go on with the "
    "task where you left off."
)


@dataclass(frozen=True)
class Opening:
    """`resumes`: the session exists already; `prompt`: what to say first, None to wait for messages."""

    session_id: str
    resumes: bool
    prompt: str | None
    cost_before_usd: float = 0.0
    """What the session had cost before this sandbox."""


def open_session(inputs: Inputs, progress: Progress, report: Report) -> Opening:
    """Puts a transcript in place when one was brought along. A missing one is reported and costs only the memory: the agent is
    told anew what the work is.
    """
    config = config_directory(inputs.state)
    config.mkdir(mode=0o700, parents=True, exist_ok=True)
    if progress.session_id is not None and has_session(config, progress.session_id):
        prompt = None if progress.round_done else _AFTER_A_CRASH
        return Opening(
            progress.session_id, resumes=True, prompt=prompt, cost_before_usd=progress.cost_before_usd
        )
    wanted = inputs.brief.resume_session_id
    if wanted is None:
        return Opening(str(uuid.uuid4()), resumes=False, prompt=inputs.prompt)
    why = "no transcript was brought along"
    if inputs.transcript is not None:
        try:
            restore_transcript(inputs.transcript, config)
            why = "the transcript holds another session"
        except BadTranscript as error:
            why = f"the transcript can't be read: {error}"
        except SessionTooLarge:
            why = "the session had become too large to be kept"
    if has_session(config, wanted):
        cost_before_usd = read_cost_before(config, wanted)
        return Opening(wanted, resumes=True, prompt=inputs.prompt, cost_before_usd=cost_before_usd)
    report(EventType.ERROR, {"reason": "session_not_restored", "session_id": wanted, "detail": why})
    return Opening(str(uuid.uuid4()), resumes=False, prompt=inputs.prompt_anew)
