"""What must not leave by the words of a sandbox: exact secrets that may be in it."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.credentials import find_secret_of_spec
from app.domain.credentials import CredentialKind
from worker.parts import Parts


async def list_own_secrets(session: AsyncSession, parts: Parts, spec_id: str) -> tuple[str, ...]:
    """The operator's, and where keys may enter sandboxes that of the person or installation whose key the spec uses."""
    keys = parts.model_keys
    if keys is None or not keys.may_enter:
        return parts.secrets
    own = await find_secret_of_spec(session, CredentialKind.MODEL, spec_id, keys.cipher)
    return (*parts.secrets, own) if own else parts.secrets
