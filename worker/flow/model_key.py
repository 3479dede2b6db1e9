"""Model keys as a run sees them: is there one, and did it work?"""

from __future__ import annotations

from app.db.credentials import find_stored
from app.db.models import Sandbox
from app.domain.credentials import CredentialKind, CredentialScope, key_owner
from app.domain.notices import KEY_REFUSED, KEY_UNREADABLE, NO_MODEL, OPERATORS_KEY_REFUSED
from app.domain.sanitize import escape_markdown
from worker.step import Step


async def has_model_key(step: Step) -> bool:
    """Of whoever labeled, of the installation or of the operator. Whether it works shows when it is used."""
    if step.parts.model_ready:
        return True
    spec = step.spec
    async with step.parts.db.read() as session:
        row = await find_stored(session, CredentialKind.MODEL, spec.labeler_id, spec.installation_id)
    return row is not None


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
