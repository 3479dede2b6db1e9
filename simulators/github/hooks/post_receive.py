"""git's post-receive hook: writes down which refs a push really moved (``SIM_RECEIVED`` names the file)."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    with Path(os.environ["SIM_RECEIVED"]).open("a", encoding="utf-8") as received:
        received.write(sys.stdin.read())
