"""Runs the demo from its first process to its last, whatever happens in between."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from app.cli.demo.narrator import Narrator
from app.cli.demo.stage import Place, Stage, Stagehand
from app.cli.demo.story import Outcome, Story
from app.cli.show import show_json
from app.domain.errors import IssuewrightError
from app.sandbox.bubblewrap import BubblewrapSandboxes
from app.sandbox.daytona_client import load_sdk
from app.sandbox.local import LocalHost
from app.web.sockets import gateway_dir

DEADLINE_S = 180.0
KEPT_IDLE_S = 600
SHORT_IDLE_S = 1
"""Nobody will send a message to a demo that is about to end."""


async def run_demo(place: Place, *, as_json: bool, keep: bool) -> int:
    """The exit code. Everything that was started has ended when it returns."""
    started = time.monotonic()
    narrator = Narrator(sys.stderr if as_json else sys.stdout)
    narrator.say("Issuewright demo: a labeled issue becomes a pull request, all on this machine")
    narrator.say()
    stagehand = Stagehand(idle_s=KEPT_IDLE_S if keep else SHORT_IDLE_S)
    telling = asyncio.create_task(_tell(stagehand, narrator, place))
    _cancel_on_signals(telling)
    failed = True
    try:
        stage, outcome = await telling
        failed = False
        if as_json:
            show_json(outcome.as_json(time.monotonic() - started))
        _say_end(narrator, outcome, time.monotonic() - started)
        if keep:
            await _keep(narrator, stage)
    except asyncio.CancelledError:
        failed = False
        with suppress(OSError):  # of a terminal that was closed
            narrator.say("stopped")
        return 130
    except (IssuewrightError, TimeoutError, OSError) as error:
        if narrator.unheard:  # nobody looks on any more, as after `| head -1`: stop as after Ctrl-C
            failed = False
            raise
        reason = str(error) or f"the demo did not end within {DEADLINE_S:.0f} s"
        if as_json:
            show_json({"ok": False, "error": reason, "logs": str(stagehand.home / "logs")})
        narrator.say()
        narrator.say(f"The demo failed: {reason}")
        narrator.say(f"Logs of all processes: {stagehand.home / 'logs'}")
        return 1
    finally:
        await stagehand.clear(remove=not failed)
    return 0


async def _tell(stagehand: Stagehand, narrator: Narrator, place: Place) -> tuple[Stage, Outcome]:
    async with asyncio.timeout(DEADLINE_S):
        usable = await _find_usable(place, stagehand.home, narrator)
        return await Story(stagehand, narrator).tell(usable)


async def _find_usable(place: Place, home: Path, narrator: Narrator) -> Place:
    """Where bubblewrap can't run, `process` will do for a scripted agent; said, never silent."""
    if place.sandbox == "daytona":
        await asyncio.to_thread(load_sdk)  # missing: said before anything starts
    if place.sandbox != "bubblewrap":
        return place
    probe = await BubblewrapSandboxes(LocalHost(home, gateway_dir(home))).probe()
    if probe.ok:
        return place
    narrator.say(f"No isolated sandbox on this machine: {probe.detail}.")
    narrator.say(
        "The demo's agent is scripted, so it works in a plain process instead. `issuewright up` would refuse."
    )
    narrator.say()
    return Place("process")


def _cancel_on_signals(task: asyncio.Task[tuple[Stage, Outcome]]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)


def _say_end(narrator: Narrator, outcome: Outcome, total_s: float) -> None:
    narrator.say()
    narrator.say(f"Issue         {outcome.issue_url}")
    narrator.say(f"Pull request  {outcome.pull['html_url']}")
    narrator.say(f"Files         {', '.join(outcome.verified.files)}")
    narrator.say(
        f"Done in {total_s:.1f} s; the model was first asked {outcome.label_to_first_model_call_s:.1f} s after the label."
    )


async def _keep(narrator: Narrator, stage: Stage) -> None:
    """Until Ctrl-C."""
    narrator.say()
    narrator.say(f"Still running: the issue and the pull request above, and the app at {stage.app_url}")
    narrator.say(
        "Open them in a browser and comment there, /agent help for one. Ctrl-C stops and removes everything."
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    with suppress(asyncio.CancelledError):
        await stop.wait()
