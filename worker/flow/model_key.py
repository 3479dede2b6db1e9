"""Model keys as a run sees them: is there one, and did it work?"""

from __future__ import annotations

from app.db.cipher import Unreadable
from app.db.credentials import find_stored, open_credential
from app.db.models import Sandbox
from app.domain.credentials import CredentialKind, CredentialScope, key_owner
from app.domain.errors import Denied
from app.domain.notices import KEY_REFUSED, KEY_UNREADABLE, NO_MODEL, OPERATORS_KEY_REFUSED
from app.domain.remote import DirectModel
from app.domain.sanitize import escape_markdown
from app.observability.redaction import register_secret
from worker.step import Step


async def has_model_key(step: Step) -> bool:
    """Of whoever labeled, of the installation or of the operator. Whether it works shows when it is used."""
    if step.parts.model_ready:
        return True
    spec = step.spec
    async with step.parts.db.read() as session:
        row = await find_stored(session, CredentialKind.MODEL, spec.labeler_id, spec.installation_id)
    return row is not None


async def direct_model(step: Step) -> DirectModel | None:
    """How an agent that can't reach the gateway would ask the model: with whose key, and with the key itself where the
    operator lets it into such a sandbox. None where that can't be. Raises Denied when the key can't be read.
    """
    keys = step.parts.model_keys
    if keys is None:
        return None
    spec = step.spec
    async with step.parts.db.read() as session:
        row = await find_stored(session, CredentialKind.MODEL, spec.labeler_id, spec.installation_id)
    if row is None:
        return DirectModel(
            CredentialScope.OPERATOR, keys.base_url, (keys.may_enter and keys.operators) or None
        )
    base_url = row.base_url or keys.base_url
    if not keys.may_enter:
        return DirectModel(row.scope, base_url)
    try:
        secret = open_credential(row, keys.cipher).secret
    except Unreadable as reason:
        raise Denied(f"the model key of the {row.scope} can't be decrypted: {reason}", "sandbox") from None
    register_secret(secret)
    return DirectModel(row.scope, base_url, secret)


def no_model_key(step: Step) -> str:
    """What to do about it, for people."""
    spec = step.spec
    login = escape_markdown(spec.labeler_login)
    return NO_MODEL.format(login=login, user_id=spec.labeler_id, installation_id=spec.installation_id)


def key_trouble(step: Step, sandbox: Sandbox) -> str | None:
    """Why the sandbox's last model call did not get past its key, and what to do; None when it did. As the gateway saw
    it, not as the sandbox tells.
    """
    trouble = sandbox.model_key_trouble
    if trouble is None:
        return None
    if sandbox.model_key_of is None:
        return no_model_key(step)
    scope = CredentialScope(sandbox.model_key_of)
    if scope is CredentialScope.OPERATOR:
        return OPERATORS_KEY_REFUSED.format(status=trouble)
    owner_id = step.spec.labeler_id if scope is CredentialScope.USER else step.spec.installation_id
    words = {
        "owner": escape_markdown(key_owner(scope, step.spec.labeler_login)),
        "option": f"--{scope} {owner_id}",
    }
    if trouble.isdecimal():
        return KEY_REFUSED.format(status=trouble, **words)
    return KEY_UNREADABLE.format(reason=trouble, **words)
