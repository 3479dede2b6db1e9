"""add credentials, and whose model key a sandbox uses.

Revision 20261128_1440.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261128_1440"
down_revision = "20261128_1010"
branch_labels = None
depends_on = None

# The column types as they were when this step was written; later changes of the models must not change them.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "credential",
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("owner_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=True),
        sa.Column("hint", sa.String(16), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("scope", "owner_id", "kind", name=op.f("pk_credential")),
    )
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        batch_op.add_column(sa.Column("model_key_of", sa.String(16), nullable=True))
        batch_op.add_column(sa.Column("model_key_trouble", sa.Text(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        batch_op.drop_column("model_key_trouble")
        batch_op.drop_column("model_key_of")
    op.drop_table("credential")
