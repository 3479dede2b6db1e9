"""Starts the simulator as a child that must not outlive it, and waits."""

import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    directory = Path(sys.argv[1])
    command = [sys.executable, "-m", "simulators", "github", "--dir", str(directory / "sim")]
    ready = ["--ready-file", str(directory / "ready.json"), "--parent-pid-watch"]
    subprocess.run([*command, *ready], check=False)
