"""What all processes of one App derive from its identity and key: the key of sandbox tokens and the owner's label."""

from __future__ import annotations

import hashlib

from app.github.access import GitHubAccess


def sandbox_token_key(private_key_pem: str) -> bytes:
    """From which the tokens of sandboxes are derived."""
    return hashlib.sha256(b"issuewright sandbox tokens\0" + private_key_pem.strip().encode()).digest()


def instance_name(access: GitHubAccess) -> str:
    """Short name of this Issuewright: its sandboxes are called `iw-NAME-…`, so that nobody else's are ever touched."""
    key = sandbox_token_key(access.private_key_pem)
    return hashlib.sha256(f"{access.host}:{access.app_id}".encode() + key).hexdigest()[:8]
