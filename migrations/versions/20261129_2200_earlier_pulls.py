"""remember which work a pull request was of that has another one by now.

Revision 20261129_2200.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261129_2200"
down_revision = "20261129_2030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "earlier_pull",
        sa.Column("repo_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("pull_number", sa.Integer(), nullable=False),
        sa.Column("spec_id", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["spec_id"], ["spec.id"], name=op.f("fk_earlier_pull_spec_id_spec"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("repo_id", "pull_number", name=op.f("pk_earlier_pull")),
    )
    with op.batch_alter_table("earlier_pull", schema=None) as batch_op:
        batch_op.create_index(op.f("ix_earlier_pull_spec_id"), ["spec_id"], unique=False)


def downgrade() -> None:
    op.drop_table("earlier_pull")
