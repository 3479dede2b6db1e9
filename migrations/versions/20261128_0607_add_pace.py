"""add the log of writes that the pace counts, and what a spec remembers of edits and refusals.

Revision 20261128_0607.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261128_0607"
down_revision = "20261128_0252"
branch_labels = None
depends_on = None

# The column type as it was when this step was written; later changes of the models must not change it.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "github_write",
        sa.Column("installation_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("place_at", TIME, nullable=False),
        sa.Column("written_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("installation_id", "place_at", name=op.f("pk_github_write")),
    )
    with op.batch_alter_table("github_write", schema=None) as batch_op:
        batch_op.create_index(
            "ix_github_write_installation_id_written_at", ["installation_id", "written_at"], unique=False
        )
    with op.batch_alter_table("installation", schema=None) as batch_op:
        batch_op.add_column(sa.Column("work_turn_at", TIME, nullable=True))
        batch_op.add_column(sa.Column("final_turn_at", TIME, nullable=True))
    with op.batch_alter_table("spec", schema=None) as batch_op:
        batch_op.add_column(sa.Column("status_state_sha", sa.String(length=64), nullable=True))
        batch_op.add_column(sa.Column("status_untold", sa.Text(), nullable=True))
        batch_op.add_column(sa.Column("status_refused_at", TIME, nullable=True))
        batch_op.add_column(sa.Column("check_untold", sa.Text(), nullable=True))
        batch_op.add_column(sa.Column("deferrals", sa.Integer(), server_default="0", nullable=False))


def downgrade() -> None:
    with op.batch_alter_table("spec", schema=None) as batch_op:
        batch_op.drop_column("deferrals")
        batch_op.drop_column("check_untold")
        batch_op.drop_column("status_refused_at")
        batch_op.drop_column("status_untold")
        batch_op.drop_column("status_state_sha")
    with op.batch_alter_table("installation", schema=None) as batch_op:
        batch_op.drop_column("final_turn_at")
        batch_op.drop_column("work_turn_at")
    with op.batch_alter_table("github_write", schema=None) as batch_op:
        batch_op.drop_index("ix_github_write_installation_id_written_at")
    op.drop_table("github_write")
