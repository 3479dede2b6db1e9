"""add sandboxes whose calls a worker carries, and whose Daytona account a sandbox is in.

Revision 20261128_1510.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261128_1510"
down_revision = "20261128_1500"
branch_labels = None
depends_on = None

# The column types as they were when this step was written; later changes of the models must not change them.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "relay",
        sa.Column("sandbox_id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(64), nullable=True),
        sa.Column("until_at", TIME, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["sandbox_id"], ["sandbox.id"], name=op.f("fk_relay_sandbox_id_sandbox"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("sandbox_id", name=op.f("pk_relay")),
    )
    op.create_index("ix_relay_until_at", "relay", ["until_at"])
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        batch_op.add_column(sa.Column("account_of", sa.String(40), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        batch_op.drop_column("account_of")
    op.drop_index("ix_relay_until_at", table_name="relay")
    op.drop_table("relay")
