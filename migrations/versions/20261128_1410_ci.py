"""add heads whose checks are looked at, how far rounds were allowed, and who said how much lately.

Revision 20261128_1410.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261128_1410"
down_revision = "20261128_1470"
branch_labels = None
depends_on = None

# The column types as they were when this step was written; later changes of the models must not change them.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "checked_head",
        sa.Column("spec_id", sa.String(32), nullable=False),
        sa.Column("head_sha", sa.String(64), nullable=False),
        sa.Column("ready_at", TIME, nullable=False),
        sa.Column("due_at", TIME, nullable=True),
        sa.Column("heard", sa.Integer(), server_default="0", nullable=False),
        sa.Column("told_at", TIME, nullable=True),
        sa.Column("asked_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["spec_id"], ["spec.id"], name=op.f("fk_checked_head_spec_id_spec"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("spec_id", "head_sha", name=op.f("pk_checked_head")),
    )
    with op.batch_alter_table("spec", schema=None) as batch_op:
        batch_op.add_column(sa.Column("rounds_before", sa.Integer(), nullable=False, server_default="0"))
    op.create_index("ix_message_author_id_created_at", "message", ["author_id", "created_at"])


def downgrade() -> None:
    op.drop_index("ix_message_author_id_created_at", table_name="message")
    with op.batch_alter_table("spec", schema=None) as batch_op:
        batch_op.drop_column("rounds_before")
    op.drop_table("checked_head")
