"""add a repository's own names of the labels.

Revision 20261128_1470.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "20261128_1470"
down_revision = "20261128_1420"
branch_labels = None
depends_on = None

# The column types as they were when this step was written; later changes of the models must not change them.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("repository", schema=None) as batch_op:
        batch_op.add_column(sa.Column("labels", JSON, nullable=True))
        batch_op.add_column(sa.Column("labels_read_at", TIME, nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("repository", schema=None) as batch_op:
        batch_op.drop_column("labels_read_at")
        batch_op.drop_column("labels")
