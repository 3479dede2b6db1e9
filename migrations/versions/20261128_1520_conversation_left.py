"""add where a message's words stand, and when a batch of review words could not be followed.

Revision 20261128_1520.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261128_1520"
down_revision = "20261128_1400"
branch_labels = None
depends_on = None

# The column types as they were when this step was written; later changes of the models must not change them.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    with op.batch_alter_table("message", schema=None) as batch_op:
        batch_op.add_column(sa.Column("place", sa.String(length=100), nullable=True))
    with op.batch_alter_table("review_batch", schema=None) as batch_op:
        batch_op.add_column(sa.Column("failed_at", TIME, nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("review_batch", schema=None) as batch_op:
        batch_op.drop_column("failed_at")
    with op.batch_alter_table("message", schema=None) as batch_op:
        batch_op.drop_column("place")
