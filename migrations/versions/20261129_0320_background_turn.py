"""let background writes queue among themselves.

Revision 20261129_0320.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261129_0320"
down_revision = "20261129_0310"
branch_labels = None
depends_on = None

# The column type as it was when this step was written; later changes of the models must not change it.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    with op.batch_alter_table("installation", schema=None) as batch_op:
        batch_op.add_column(sa.Column("background_turn_at", TIME, nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("installation", schema=None) as batch_op:
        batch_op.drop_column("background_turn_at")
