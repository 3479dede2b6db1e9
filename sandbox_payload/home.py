"""The private home that the agent and its commands share."""

from __future__ import annotations

from pathlib import Path

from sandbox_payload.wire import Brief


def ensure_git_identity(home: Path, brief: Brief) -> None:
    """Lets the agent commit: an identity, and no fear of a work tree owned by another user id. Keeps a file it finds."""
    config = home / ".gitconfig"
    if config.exists():
        return
    home.mkdir(parents=True, exist_ok=True)
    name, email = (
        text.replace("\\", "").replace('"', "").replace("\n", " ")
        for text in (brief.author_name, brief.author_email)
    )
    config.write_text(f'[user]\n\tname = "{name}"\n\temail = "{email}"\n[safe]\n\tdirectory = *\n')
