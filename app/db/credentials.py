"""All SQL about stored credentials. Secrets are opened here, and handed to whoever sends them to where they belong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.cipher import Cipher, Unreadable
from app.db.dialect import insert_for
from app.db.models import Spec, StoredCredential
from app.domain.credentials import (
    Credential,
    CredentialKind,
    CredentialPlace,
    CredentialScope,
    secret_hint,
)

_NEAREST_FIRST = (CredentialScope.USER, CredentialScope.INSTALLATION)


@dataclass(frozen=True)
class Rotation:
    """`renewed` are now under the first key; `unreadable` are under none of the keys and stay as they are."""

    renewed: tuple[CredentialPlace, ...]
    unreadable: tuple[CredentialPlace, ...]


@dataclass(frozen=True)
class SealedSecret:
    text: str
    base_url: str | None
    hint: str

    @classmethod
    def of(cls, cipher: Cipher, place: CredentialPlace, secret: str, base_url: str | None) -> SealedSecret:
        """Raises SettingsError when there is no CREDENTIALS_KEY."""
        text = cipher.seal(place.scope.value, place.owner_id, place.kind.value, base_url, secret)
        return cls(text, base_url, secret_hint(secret))


async def record_credential(
    session: AsyncSession, place: CredentialPlace, sealed: SealedSecret, now: datetime
) -> None:
    """Store it, in the place of what stood there."""
    values = {"sealed": sealed.text, "base_url": sealed.base_url, "hint": sealed.hint, "updated_at": now}
    statement = insert_for(session, StoredCredential).values(
        scope=place.scope.value, owner_id=place.owner_id, kind=place.kind.value, created_at=now, **values
    )
    await session.execute(
        statement.on_conflict_do_update(index_elements=["scope", "owner_id", "kind"], set_=values)
    )


def place_of(row: StoredCredential) -> CredentialPlace:
    return CredentialPlace(CredentialScope(row.scope), row.owner_id, CredentialKind(row.kind))


def open_credential(row: StoredCredential, cipher: Cipher) -> Credential:
    """Raises Unreadable: no key opens it, or it was sealed for another row."""
    place = place_of(row)
    *sealed_for, secret = cipher.open(row.sealed)
    if sealed_for != [place.scope.value, place.owner_id, place.kind.value, row.base_url]:
        raise Unreadable(f"the {place.words} was changed in the database")
    return Credential(place.scope, str(secret), row.base_url)


async def list_credentials(session: AsyncSession) -> Sequence[StoredCredential]:
    order = (StoredCredential.scope.desc(), StoredCredential.owner_id, StoredCredential.kind)
    return (await session.scalars(select(StoredCredential).order_by(*order))).all()


async def remove_credential(session: AsyncSession, place: CredentialPlace) -> bool:
    """Whether there was one."""
    statement = delete(StoredCredential).where(*_at(place)).returning(StoredCredential.kind)
    return (await session.execute(statement)).scalar_one_or_none() is not None


async def find_stored(
    session: AsyncSession, kind: CredentialKind, labeler_id: int, installation_id: int
) -> StoredCredential | None:
    """The nearest one for a run: of the person who labeled, else of the installation; None: the operator's counts."""
    owners = {CredentialScope.USER: labeler_id, CredentialScope.INSTALLATION: installation_id}
    rows = await session.scalars(
        select(StoredCredential).where(
            StoredCredential.kind == kind.value,
            or_(
                *(
                    and_(StoredCredential.scope == scope.value, StoredCredential.owner_id == owner_id)
                    for scope, owner_id in owners.items()
                )
            ),
        )
    )
    found = {row.scope: row for row in rows}
    return next((found[scope.value] for scope in _NEAREST_FIRST if scope.value in found), None)


async def find_stored_of_spec(
    session: AsyncSession, kind: CredentialKind, spec_id: str
) -> StoredCredential | None:
    owners = (
        await session.execute(select(Spec.labeler_id, Spec.installation_id).where(Spec.id == spec_id))
    ).one_or_none()
    return None if owners is None else await find_stored(session, kind, owners[0], owners[1])


async def find_secret_of_spec(
    session: AsyncSession, kind: CredentialKind, spec_id: str, cipher: Cipher
) -> str | None:
    """The nearest stored secret itself, as far as it can be read."""
    row = await find_stored_of_spec(session, kind, spec_id)
    try:
        return None if row is None else open_credential(row, cipher).secret
    except Unreadable:
        return None


async def renew_credentials(session: AsyncSession, cipher: Cipher, now: datetime) -> Rotation:
    """Encrypt all anew under the first key. What is there already is left alone, so doing it again changes nothing; one
    that is replaced meanwhile stays as it was replaced.
    """
    renewed, unreadable = [], []
    for row in await list_credentials(session):
        place = place_of(row)
        if cipher.is_under_first_key(row.sealed):
            continue
        try:
            credential = open_credential(row, cipher)
        except Unreadable:
            unreadable.append(place)
            continue
        sealed = SealedSecret.of(cipher, place, credential.secret, row.base_url)
        statement = (
            update(StoredCredential)
            .where(*_at(place), StoredCredential.sealed == row.sealed)
            .values(sealed=sealed.text, updated_at=now)
            .execution_options(synchronize_session=False)
        )
        await session.execute(statement)
        renewed.append(place)
    return Rotation(tuple(renewed), tuple(unreadable))


async def list_logins(session: AsyncSession, user_ids: Sequence[int]) -> Mapping[int, str]:
    """What people were called when they last set a label here."""
    newest = (
        select(Spec.labeler_id, func.max(Spec.created_at).label("at"))
        .where(Spec.labeler_id.in_(user_ids))
        .group_by(Spec.labeler_id)
        .subquery()
    )
    rows = await session.execute(
        select(Spec.labeler_id, Spec.labeler_login).join(
            newest, and_(Spec.labeler_id == newest.c.labeler_id, Spec.created_at == newest.c.at)
        )
    )
    return {row[0]: row[1] for row in rows}


def _at(place: CredentialPlace) -> tuple[ColumnElement[bool], ...]:
    return (
        StoredCredential.scope == place.scope.value,
        StoredCredential.owner_id == place.owner_id,
        StoredCredential.kind == place.kind.value,
    )
