"""Whose key a model call goes out with, read anew for each call, so that a replaced one works at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError

from app.db.cipher import Unreadable
from app.db.credentials import find_stored_of_spec, open_credential
from app.db.sandbox_access import SandboxIdentity, lock_live
from app.domain.credentials import CredentialKind, CredentialScope
from app.observability.logging import get_logger
from app.observability.redaction import register_secret
from app.web.model_gateway.errors import ModelError
from app.web.parts import Parts

log = get_logger()

REFUSALS = frozenset({401, 403})
_OWNERS = {
    CredentialScope.USER: "key of the person who set the label",
    CredentialScope.INSTALLATION: "key of this installation",
    CredentialScope.OPERATOR: "operator's key",
}
"""For agents, who need no names."""


@dataclass(frozen=True)
class ModelKey:
    """A key and the only address that it may be sent to."""

    scope: CredentialScope
    secret: str = field(repr=False)
    base_url: str

    def hide(self, body: bytes) -> bytes:
        """A refusal as the sandbox may read it, should the upstream repeat the key in it."""
        return body.replace(self.secret.encode(), b"[redacted]") if self.secret else body


async def get_model_key(parts: Parts, sandbox: SandboxIdentity) -> ModelKey:
    """Of the person who labeled, else of the installation, else the operator's. Raises ModelError 403 when there is
    none or the nearest one can't be read: somebody else's is not used in its place.
    """
    try:
        async with parts.database.look() as session:
            row = await find_stored_of_spec(session, CredentialKind.MODEL, sandbox.spec_id)
    except (SQLAlchemyError, OSError):
        raise ModelError(503, "storage is unavailable; try again", "storage") from None
    if row is None:
        return await _operators(parts, sandbox)
    try:
        found = open_credential(row, parts.cipher)
    except Unreadable as reason:
        await note_trouble(parts, sandbox, CredentialScope(row.scope), str(reason))
        owner = _OWNERS[CredentialScope(row.scope)]
        raise ModelError(403, f"the {owner} can't be decrypted: {reason}", "no_key") from None
    register_secret(found.secret)
    return ModelKey(found.scope, found.secret, found.base_url or parts.settings.anthropic_base_url)


async def _operators(parts: Parts, sandbox: SandboxIdentity) -> ModelKey:
    secret = parts.settings.anthropic_api_key
    if secret is None:
        await note_trouble(parts, sandbox, None, "missing")
        raise ModelError(
            403,
            "no model key: the operator must set ANTHROPIC_API_KEY, or store one of whoever set the label",
            "no_key",
        )
    return ModelKey(CredentialScope.OPERATOR, secret.get_secret_value(), parts.settings.anthropic_base_url)


async def refuse_key(parts: Parts, sandbox: SandboxIdentity, key: ModelKey, status: int) -> ModelError:
    """What the sandbox is told when the upstream refuses the key: 403, since the CLI would try a 401 for minutes."""
    log.error("model.key_refused", sandbox_id=sandbox.id, scope=key.scope.value, status=status)
    await note_trouble(parts, sandbox, key.scope, str(status))
    return ModelError(
        403, f"the model's API refuses the {_OWNERS[key.scope]} ({status})", f"upstream_{status}"
    )


async def note_trouble(
    parts: Parts, sandbox: SandboxIdentity, scope: CredentialScope | None, trouble: str
) -> None:
    """For the worker, which tells people. Lost when storage is away; the next call notes it again."""
    try:
        async with parts.database.write() as session:
            row = await lock_live(session, sandbox.id)
            if row is not None:
                row.model_key_of, row.model_key_trouble = scope, trouble
    except (SQLAlchemyError, OSError) as error:
        log.warning("model_key.trouble_not_noted", sandbox_id=sandbox.id, error=type(error).__name__)
