"""`python3 -c <this file> APP_URL [MODEL_URL]`, run in a sandbox: prints as JSON what is there and what can be reached.

Standard library only. Each entry of `troubles` is one line; `app` and `model` say why those can't be reached, if so.
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


def look(app_url: str, model_url: str = "") -> dict[str, Any]:
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
    app = unreached(f"{app_url}/healthz", only_well=True)
    model = unreached(model_url, only_well=False) if model_url else ""
    return {"agent_sdk": agent, "image": version, "app": app, "model": model, "troubles": troubles}


def unreached(url: str, *, only_well: bool) -> str:
    """Why not; empty when it answers: with whatever status, or `only_well` with a good one."""
    try:
        with urllib.request.urlopen(url, timeout=3):  # noqa: S310 - the operator's own address
            return ""
    except urllib.error.HTTPError as error:
        return str(error) if only_well else ""
    except (urllib.error.URLError, OSError, ValueError) as error:
        return str(error) or type(error).__name__


if __name__ == "__main__":
    print(json.dumps(look(*sys.argv[1:3])))
