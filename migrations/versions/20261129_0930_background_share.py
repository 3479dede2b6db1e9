"""tell background writes from the others, so that they get their share of an hour.

Revision 20261129_0930.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261129_0930"
down_revision = "20261129_0640"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("github_write", schema=None) as batch_op:
        batch_op.add_column(sa.Column("background", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    with op.batch_alter_table("github_write", schema=None) as batch_op:
        batch_op.drop_column("background")
