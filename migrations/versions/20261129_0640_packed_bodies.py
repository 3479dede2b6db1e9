"""let deliveries' bodies be packed; those that are stored stay as they are and can be read.

Nothing changes in the schema. Its new name keeps processes of the release before, which cannot read what is packed,
from starting.

Revision 20261129_0640.
"""

from __future__ import annotations

import zlib

import sqlalchemy as sa
from alembic import op

revision = "20261129_0640"
down_revision = "20261129_0320"
branch_labels = None
depends_on = None

# As the models had it when this step was written; later changes of theirs must not change it.
PACKED = b"\x01"
DELIVERY = sa.table("delivery", sa.column("id", sa.String(64)), sa.column("body", sa.LargeBinary))


def upgrade() -> None:
    """Rows are packed from now on, as they come."""


def downgrade() -> None:
    connection = op.get_bind()
    for guid in list(connection.scalars(sa.select(DELIVERY.c.id))):
        this = DELIVERY.c.id == guid
        body = bytes(connection.scalar(sa.select(DELIVERY.c.body).where(this)) or b"")
        if body.startswith(PACKED):
            connection.execute(sa.update(DELIVERY).where(this).values(body=zlib.decompress(body[1:])))
