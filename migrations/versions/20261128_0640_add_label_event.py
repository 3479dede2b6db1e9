"""add what a spec remembers of its label event: when it happened, by GitHub's clock, and the label's number.

Revision 20261128_0640.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261128_0640"
down_revision = "20261128_0607"
branch_labels = None
depends_on = None

# The column type as it was when this step was written; later changes of the models must not change it.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    with op.batch_alter_table("spec", schema=None) as batch_op:
        batch_op.add_column(sa.Column("labeled_at", TIME, nullable=True))
        batch_op.add_column(sa.Column("trigger_label_id", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("spec", schema=None) as batch_op:
        batch_op.drop_column("trigger_label_id")
        batch_op.drop_column("labeled_at")
