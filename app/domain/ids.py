"""Identities. Numeric ids are GitHub's and never change; names are labels that do."""

from __future__ import annotations

import secrets
from typing import NewType

DeliveryId = NewType("DeliveryId", str)
InstallationId = NewType("InstallationId", int)
RepoId = NewType("RepoId", int)
IssueNumber = NewType("IssueNumber", int)
UserId = NewType("UserId", int)
SpecId = NewType("SpecId", str)
TaskId = NewType("TaskId", str)
SandboxId = NewType("SandboxId", str)
EffectId = NewType("EffectId", str)

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def _new(prefix: str) -> str:
    # 20 characters of 32: 100 bits, safe as a path component, a label value and a sandbox name.
    return f"{prefix}_" + "".join(secrets.choice(_ALPHABET) for _ in range(20))


def new_spec_id() -> SpecId:
    return SpecId(_new("spec"))


def new_task_id() -> TaskId:
    return TaskId(_new("task"))


def new_sandbox_id() -> SandboxId:
    return SandboxId(_new("sbx"))


def new_effect_id() -> EffectId:
    return EffectId(_new("eff"))
