"""`python -m sandbox_payload --inputs DIR --state DIR --workspace DIR`: the program of a sandbox."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from sandbox_payload.held import NotReleased, await_release
from sandbox_payload.home import ensure_git_identity
from sandbox_payload.inputs import BadInputs, Inputs, read_inputs, scrub_environment
from sandbox_payload.processes import adopt_orphans
from sandbox_payload.wire import LOADED, ExitCode


def main() -> int:
    parser = argparse.ArgumentParser(prog="sandbox_payload", description="Run one agent and report on it.")
    for name, meaning in (
        ("inputs", "brief.json, prompt.md and what comes with them"),
        ("state", "a private directory that outlives a restart of this program"),
        ("workspace", "the git work tree"),
    ):
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="DIR", help=meaning)
    parser.add_argument(
        "--relay",
        action="store_true",
        help="the app can't be reached: leave calls on disk to be carried there",
    )
    parser.add_argument(
        "--held",
        action="store_true",
        help="load first, then wait on standard input for more variables, as a JSON object",
    )
    options = parser.parse_args()
    state = options.state.resolve()
    try:
        if options.held:
            _load()
            os.environ.update(await_release(state / LOADED))
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        inputs = read_inputs(
            options.inputs.resolve(), state, options.workspace.resolve(), os.environ, relayed=options.relay
        )
        scrub_environment(os.environ, inputs.app_url)
        ensure_git_identity(Path(os.environ["HOME"]), inputs.brief)
    except (BadInputs, NotReleased, OSError) as error:
        print(f"sandbox_payload: {error}", file=sys.stderr)
        return ExitCode.BAD_INPUTS
    adopt_orphans()
    run = _load()  # bad inputs are told before
    # Not asyncio.run(): at its end it would wait for threads that hang in a request to an app that is away.
    return asyncio.new_event_loop().run_until_complete(run(inputs))


def _load() -> Callable[[Inputs], Awaitable[ExitCode]]:
    """The agent's SDK takes a second to load. Nothing of what is loaded is garbage, and looking for some costs a tenth of
    that time.
    """
    gc.disable()
    from sandbox_payload.run import run  # noqa: PLC0415

    gc.enable()
    gc.freeze()
    return run


if __name__ == "__main__":
    exit_code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
