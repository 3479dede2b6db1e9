"""add since when a repository's events reach us, to tell a label whose event was lost from one that is older.

Revision 20261128_0745.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261128_0745"
down_revision = "20261128_0640"
branch_labels = None
depends_on = None

# The column type as it was when this step was written; later changes of the models must not change it.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    with op.batch_alter_table("repository", schema=None) as batch_op:
        batch_op.add_column(sa.Column("heard_since_at", TIME, nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("repository", schema=None) as batch_op:
        batch_op.drop_column("heard_since_at")
