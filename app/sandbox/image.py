"""What a remote sandbox starts from: an image with Python, git and the agent's SDK, so that nothing is installed per run.

`issuewright sandboxes build-image` makes a Daytona snapshot of it, or prints it as a Dockerfile for a registry of one's
own. Its version is a digest of these lines and stands in a file of the image, where `doctor` reads it.
"""

from __future__ import annotations

import hashlib

BASE = "python:3.12-slim-bookworm"
AGENT_SDK = "0.2.189"
"""The version that pyproject.toml names for local sandboxes, too."""
VERSION_FILE = "/etc/issuewright-image"
_USER = "daytona"
_RECIPE = (
    "RUN apt-get update && apt-get install -y --no-install-recommends "
    "bash build-essential ca-certificates curl git make procps ripgrep util-linux && rm -rf /var/lib/apt/lists/*",
    f"RUN python3 -m pip install --no-cache-dir claude-agent-sdk=={AGENT_SDK} 'pydantic>=2.14,<3' pytest",
    f"RUN id {_USER} >/dev/null 2>&1 || useradd --create-home --shell /bin/bash {_USER}",
)

IMAGE_VERSION = hashlib.sha256("\n".join((BASE, *_RECIPE)).encode()).hexdigest()[:12]


def recipe_lines() -> tuple[str, ...]:
    """The Dockerfile's lines after its FROM."""
    return (*_RECIPE, f"RUN echo {IMAGE_VERSION} > {VERSION_FILE}", f"USER {_USER}", f"WORKDIR /home/{_USER}")


def render_dockerfile() -> str:
    return "\n".join((f"FROM {BASE}", *recipe_lines(), ""))
