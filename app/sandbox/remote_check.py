"""`python3 -c <this file> APP_URL`, run in a probe sandbox: prints as JSON what is there and what can be reached.

Standard library only. Each entry of `troubles` is one line.
"""

import importlib.metadata
import json
import shutil
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

VERSION_FILE = "/etc/issuewright-image"
PROGRAMS = ("bash", "git", "tar", "setsid")


def look(app_url: str) -> dict[str, Any]:
    troubles = [f"there is no {name} in it" for name in PROGRAMS if shutil.which(name) is None]
    try:
        agent = importlib.metadata.version("claude-agent-sdk")
    except importlib.metadata.PackageNotFoundError:
        agent = ""
        troubles.append("its python3 has no claude-agent-sdk")
    try:
        version = Path(VERSION_FILE).read_text(encoding="utf-8").strip()
    except OSError:
        version = ""
    reached = True
    try:
        with urllib.request.urlopen(f"{app_url}/healthz", timeout=5):  # noqa: S310 - the operator's own address
            pass
    except (urllib.error.URLError, OSError, ValueError) as error:
        reached = False
        troubles.append(f"it can't reach {app_url} ({error})")
    return {"agent_sdk": agent, "image": version, "reached": reached, "troubles": troubles}


if __name__ == "__main__":
    print(json.dumps(look(sys.argv[1])))
