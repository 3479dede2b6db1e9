"""tell what a sandbox spent on one day from what it had spent before.

Revision 20261129_2030.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261129_2030"
down_revision = "20261129_0930"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        batch_op.add_column(sa.Column("last_spent_at", TIME, nullable=True))
        batch_op.add_column(sa.Column("spent_before_usd", sa.Double(), nullable=False, server_default="0"))


def downgrade() -> None:
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        batch_op.drop_column("spent_before_usd")
        batch_op.drop_column("last_spent_at")
