"""add comments heard, and messages that wait for a sandbox.

Revision 20261128_1010.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "20261128_1010"
down_revision = "20261128_1000"
branch_labels = None
depends_on = None

# The column types as they were when this step was written; later changes of the models must not change them.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
WAITING = "state IN ('queued', 'sent')"


def upgrade() -> None:
    op.create_table(
        "heard_comment",
        sa.Column("repo_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("comment_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("issue_number", sa.Integer(), nullable=False),
        sa.Column("edited_at", TIME, nullable=True),
        sa.Column("body_sha", sa.String(64), nullable=False),
        sa.Column("commands", JSON, nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("heard_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("repo_id", "comment_id", name=op.f("pk_heard_comment")),
    )
    with op.batch_alter_table("message", schema=None) as batch_op:
        batch_op.alter_column("sandbox_id", existing_type=sa.String(32), nullable=True)
        batch_op.add_column(sa.Column("spec_id", sa.String(32), nullable=True))
        batch_op.add_column(sa.Column("comment_id", sa.BigInteger(), nullable=True))
        batch_op.create_foreign_key(
            op.f("fk_message_spec_id_spec"), "spec", ["spec_id"], ["id"], ondelete="CASCADE"
        )
    op.execute(
        "UPDATE message SET spec_id = (SELECT spec_id FROM sandbox WHERE sandbox.id = message.sandbox_id)"
    )
    op.create_index(
        "ix_message_waiting_spec_id", "message", ["spec_id"],
        sqlite_where=sa.text(WAITING), postgresql_where=sa.text(WAITING),
    )  # fmt: skip
    op.create_index("ix_message_comment_id", "message", ["comment_id"])


def downgrade() -> None:
    op.drop_index("ix_message_comment_id", table_name="message")
    op.drop_index("ix_message_waiting_spec_id", table_name="message")
    op.execute("DELETE FROM message WHERE sandbox_id IS NULL")
    with op.batch_alter_table("message", schema=None) as batch_op:
        batch_op.drop_constraint(op.f("fk_message_spec_id_spec"), type_="foreignkey")
        batch_op.drop_column("comment_id")
        batch_op.drop_column("spec_id")
        batch_op.alter_column("sandbox_id", existing_type=sa.String(32), nullable=False)
    op.drop_table("heard_comment")
