"""add retention: what was archived and removed, whole texts of events, and events that were passed over.

Revision 20261128_1450.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261128_1450"
down_revision = "20261128_1430"
branch_labels = None
depends_on = None

# The column types as they were when this step was written; later changes of the models must not change them.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
KEPT = "events_removed_at IS NULL AND ended_at IS NOT NULL"


def upgrade() -> None:
    op.create_table(
        "event_text",
        sa.Column("sandbox_id", sa.String(32), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["sandbox_id"], ["sandbox.id"], name=op.f("fk_event_text_sandbox_id_sandbox"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("sandbox_id", "seq", "name", name=op.f("pk_event_text")),
    )
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        batch_op.add_column(sa.Column("events_passed_over", sa.Integer(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("archived_at", TIME, nullable=True))
        batch_op.add_column(sa.Column("events_removed_at", TIME, nullable=True))
    op.create_index(
        "ix_sandbox_kept_ended_at", "sandbox", ["ended_at"],
        sqlite_where=sa.text(KEPT), postgresql_where=sa.text(KEPT),
    )  # fmt: skip


def downgrade() -> None:
    op.drop_index("ix_sandbox_kept_ended_at", table_name="sandbox")
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        for name in ("events_removed_at", "archived_at", "events_passed_over"):
            batch_op.drop_column(name)
    op.drop_table("event_text")
