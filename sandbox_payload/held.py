"""A payload that is started before there is work for it: it loads what takes time, then waits to be let go.

The host writes one JSON object to standard input, the variables that only the work brings, and closes it. Standard
library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


class NotReleased(Exception):
    """The host ended, or wrote something else: there is no work."""


def await_release(loaded: Path) -> Mapping[str, str]:
    """Blocks, and makes the file `loaded` first; the variables. Nothing that is started afterwards inherits the host's end. Raises NotReleased."""
    loaded.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    loaded.touch()
    with open(0, "rb", closefd=False) as stream:
        told = stream.read()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        variables = json.loads(told)
        return {str(name): str(value) for name, value in variables.items()}
    except (ValueError, AttributeError) as error:
        raise NotReleased("never let go") from error
