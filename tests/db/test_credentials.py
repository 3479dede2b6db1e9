"""Stored credentials: nearest first, sealed for their own row, renewed under another key."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from app.db.cipher import Cipher, Unreadable
from app.db.credentials import (
    SealedSecret,
    find_stored,
    find_stored_of_spec,
    list_credentials,
    list_logins,
    open_credential,
    record_credential,
    remove_credential,
    renew_credentials,
)
from app.db.engine import Database
from app.db.models import StoredCredential
from app.domain.credentials import CredentialKind, CredentialPlace, CredentialScope
from app.domain.errors import SettingsError
from tests.db.rows import T0, add_spec, after

OLD, NEW = "old-" + "a" * 40, "new-" + "b" * 40
ALICE = CredentialPlace(CredentialScope.USER, 11, CredentialKind.MODEL)
BOB = CredentialPlace(CredentialScope.USER, 12, CredentialKind.MODEL)
TEAM = CredentialPlace(CredentialScope.INSTALLATION, 1, CredentialKind.MODEL)


async def store(
    db: Database, place: CredentialPlace, secret: str, key: str = OLD, url: str | None = None
) -> None:
    async with db.write() as session:
        await record_credential(session, place, SealedSecret.of(Cipher([key]), place, secret, url), T0)


async def nearest(db: Database, kind: CredentialKind, labeler_id: int, installation_id: int) -> str | None:
    async with db.read() as session:
        row = await find_stored(session, kind, labeler_id, installation_id)
    return None if row is None else open_credential(row, Cipher([OLD])).secret


async def test_persons_key_comes_before_the_installations(db: Database) -> None:
    await store(db, TEAM, "of-the-team")
    await store(db, ALICE, "of-alice")
    assert await nearest(db, CredentialKind.MODEL, 11, 1) == "of-alice"
    assert await nearest(db, CredentialKind.MODEL, 12, 1) == "of-the-team"
    assert await nearest(db, CredentialKind.MODEL, 12, 2) is None


async def test_number_of_a_person_is_not_the_number_of_an_installation(db: Database) -> None:
    await store(db, TEAM, "of-the-team")
    assert await nearest(db, CredentialKind.MODEL, 1, 99) is None


async def test_spec_leads_to_the_key_of_whoever_labeled(db: Database) -> None:
    spec_id = await add_spec(db)
    await store(db, ALICE, "of-alice", url="https://models.example.org")
    async with db.read() as session:
        row = await find_stored_of_spec(session, CredentialKind.MODEL, spec_id)
        assert row is not None
        assert open_credential(row, Cipher([OLD])).base_url == "https://models.example.org"
        assert await find_stored_of_spec(session, CredentialKind.MODEL, "spec_none") is None
        assert await list_logins(session, [11, 12]) == {11: "alice"}


async def test_stored_twice_then_the_second_counts_and_removed_it_is_gone(db: Database) -> None:
    await store(db, ALICE, "first")
    await store(db, ALICE, "second")
    assert await nearest(db, CredentialKind.MODEL, 11, 1) == "second"
    async with db.write() as session:
        assert await remove_credential(session, ALICE)
        assert not await remove_credential(session, ALICE)
    assert await nearest(db, CredentialKind.MODEL, 11, 1) is None


async def test_secret_stands_nowhere_in_the_row(db: Database) -> None:
    await store(db, ALICE, "a-secret-of-many-characters-1234")
    async with db.read() as session:
        (row,) = await list_credentials(session)
    seen = " ".join(str(getattr(row, column.name)) for column in StoredCredential.__table__.columns)
    assert "a-secret-of-many" not in seen
    assert row.hint == "…1234"
    assert "a-secret-of-many" not in repr(open_credential(row, Cipher([OLD])))


@pytest.mark.parametrize("change", [{"owner_id": 12}, {"base_url": "https://elsewhere.example"}])
async def test_row_that_was_changed_in_the_database_is_not_used(
    db: Database, change: dict[str, object]
) -> None:
    await store(db, ALICE, "of-alice")
    async with db.write() as session:
        await session.execute(update(StoredCredential).values(**change))
    async with db.read() as session:
        row = (await session.scalars(select(StoredCredential))).one()
    with pytest.raises(Unreadable):
        open_credential(row, Cipher([OLD]))


async def test_renewed_under_a_new_key_then_the_old_one_is_not_needed(db: Database) -> None:
    await store(db, ALICE, "of-alice", OLD)
    await store(db, TEAM, "of-the-team", NEW)
    await store(db, BOB, "of-bob", "lost-" + "c" * 40)
    both = Cipher([NEW, OLD])
    async with db.write() as session:
        done = await renew_credentials(session, both, after(60))
    assert (done.renewed, done.unreadable) == ((ALICE,), (BOB,))
    async with db.write() as session:
        again = await renew_credentials(session, both, after(120))
        rows = {row.owner_id: row for row in await list_credentials(session)}
    assert again.renewed == ()
    assert open_credential(rows[11], Cipher([NEW])).secret == "of-alice"
    with pytest.raises(Unreadable):
        open_credential(rows[11], Cipher([OLD]))
    with pytest.raises(Unreadable):
        open_credential(rows[11], Cipher([]))


def test_without_a_key_nothing_is_sealed() -> None:
    with pytest.raises(SettingsError, match="CREDENTIALS_KEY"):
        Cipher([]).seal("x")
