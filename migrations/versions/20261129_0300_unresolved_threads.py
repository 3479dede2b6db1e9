"""add threads of reviews that were opened again.

Revision 20261129_0300.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261129_0300"
down_revision = "20261128_1510"
branch_labels = None
depends_on = None

# The column type as it was when this step was written; later changes of the models must not change it.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "unresolved_thread",
        sa.Column("repo_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("root_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=True),
        sa.Column("unresolved_at", TIME, nullable=True),
        sa.Column("heard_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["review_batch.id"],
            name=op.f("fk_unresolved_thread_batch_id_review_batch"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("repo_id", "root_id", name=op.f("pk_unresolved_thread")),
    )
    op.create_index("ix_unresolved_thread_batch_id", "unresolved_thread", ["batch_id"])


def downgrade() -> None:
    op.drop_table("unresolved_thread")
