"""add what was told of a spec's branch by others.

Revision 20261128_1420.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261128_1420"
down_revision = "20261128_1440"
branch_labels = None
depends_on = None

COUNTERS = ("branch_told", "branch_seen")


def upgrade() -> None:
    with op.batch_alter_table("spec", schema=None) as batch_op:
        for name in COUNTERS:
            batch_op.add_column(sa.Column(name, sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    with op.batch_alter_table("spec", schema=None) as batch_op:
        for name in reversed(COUNTERS):
            batch_op.drop_column(name)
