"""add what a model says about running agents, and who asked it.

Revision 20261129_0310.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261129_0310"
down_revision = "20261129_0300"
branch_labels = None
depends_on = None

# The column type as it was when this step was written; later changes of the models must not change it.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    with op.batch_alter_table("model_call", schema=None) as batch_op:
        batch_op.add_column(sa.Column("asked_by", sa.String(16), nullable=False, server_default="agent"))
    op.create_table(
        "guardian_verdict",
        sa.Column("sandbox_id", sa.String(32), nullable=False),
        sa.Column("asked_tools", sa.Integer(), nullable=False),
        sa.Column("asked_seq", sa.BigInteger(), nullable=False),
        sa.Column("asked_at", TIME, nullable=False),
        sa.Column("call_id", sa.String(32), nullable=True),
        sa.Column("asking_until", TIME, nullable=True),
        sa.Column("advice", sa.Text(), nullable=False),
        sa.Column("advised_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["sandbox_id"],
            ["sandbox.id"],
            name=op.f("fk_guardian_verdict_sandbox_id_sandbox"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("sandbox_id", name=op.f("pk_guardian_verdict")),
    )


def downgrade() -> None:
    op.drop_table("guardian_verdict")
    with op.batch_alter_table("model_call", schema=None) as batch_op:
        batch_op.drop_column("asked_by")
