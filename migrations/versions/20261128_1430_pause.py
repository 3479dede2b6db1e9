"""add what pauses work, a base that was asked for, and who wrote a message.

Revision 20261128_1430.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261128_1430"
down_revision = "20261128_1460"
branch_labels = None
depends_on = None

# The column type as it was when this step was written; later changes of the models must not change it.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    with op.batch_alter_table("spec", schema=None) as batch_op:
        batch_op.add_column(sa.Column("pause_asked_at", TIME, nullable=True))
        batch_op.add_column(sa.Column("pause_asked_by", sa.String(100), nullable=True))
        batch_op.add_column(sa.Column("paused_from", sa.String(32), nullable=True))
        batch_op.add_column(sa.Column("base_asked", sa.String(255), nullable=True))
    with op.batch_alter_table("message", schema=None) as batch_op:
        batch_op.add_column(sa.Column("author_login", sa.String(100), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("message", schema=None) as batch_op:
        batch_op.drop_column("author_login")
    with op.batch_alter_table("spec", schema=None) as batch_op:
        batch_op.drop_column("base_asked")
        batch_op.drop_column("paused_from")
        batch_op.drop_column("pause_asked_by")
        batch_op.drop_column("pause_asked_at")
