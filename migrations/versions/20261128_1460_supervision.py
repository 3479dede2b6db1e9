"""add what supervision finds of sandboxes, and who waits for one.

Revision 20261128_1460.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261128_1460"
down_revision = "20261128_1410"
branch_labels = None
depends_on = None

# The column types as they were when this step was written; later changes of the models must not change them.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        batch_op.add_column(sa.Column("ordered_at", TIME, nullable=True))
        batch_op.add_column(sa.Column("running", sa.String(200), nullable=True))
        batch_op.add_column(sa.Column("gap_since_at", TIME, nullable=True))
        batch_op.add_column(sa.Column("trouble", sa.String(32), nullable=True))
        batch_op.add_column(sa.Column("memory_gb", sa.Integer(), nullable=True))
    with op.batch_alter_table("lock", schema=None) as batch_op:
        batch_op.add_column(sa.Column("since_at", TIME, nullable=True))
    with op.batch_alter_table("spec", schema=None) as batch_op:
        batch_op.add_column(sa.Column("queued_at", TIME, nullable=True))
        batch_op.add_column(sa.Column("queue_reason", sa.String(32), nullable=True))
        batch_op.add_column(sa.Column("queue_place", sa.Integer(), nullable=True))
        batch_op.create_index("ix_spec_queued_at", ["queued_at"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("spec", schema=None) as batch_op:
        batch_op.drop_index("ix_spec_queued_at")
        batch_op.drop_column("queue_place")
        batch_op.drop_column("queue_reason")
        batch_op.drop_column("queued_at")
    with op.batch_alter_table("lock", schema=None) as batch_op:
        batch_op.drop_column("since_at")
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        batch_op.drop_column("memory_gb")
        batch_op.drop_column("trouble")
        batch_op.drop_column("gap_since_at")
        batch_op.drop_column("running")
        batch_op.drop_column("ordered_at")
