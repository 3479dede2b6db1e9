"""Puts the hooks where git looks for them."""

import shlex
import sys
from pathlib import Path

NAMES = {"pre-receive": "pre_receive.py", "post-receive": "post_receive.py"}


def install_hooks(directory: Path) -> None:
    """Writes one executable per hook that runs the module beside this one."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, module in NAMES.items():
        command = shlex.join([sys.executable, "-I", "-S", str(Path(__file__).with_name(module))])
        target = directory / name
        target.write_text(f"#!/bin/sh\nexec {command}\n", encoding="utf-8")
        target.chmod(0o755)
