"""add what watches over agents keeps, and what it did.

Revision 20261128_1500.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "20261128_1500"
down_revision = "20261128_1520"
branch_labels = None
depends_on = None

# The column types as they were when this step was written; later changes of the models must not change them.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "guardian_trail",
        sa.Column("sandbox_id", sa.String(32), nullable=False),
        sa.Column("seen_seq", sa.BigInteger(), nullable=False),
        sa.Column("trail", JSON, nullable=False),
        sa.Column("nudged_at", TIME, nullable=True),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["sandbox_id"],
            ["sandbox.id"],
            name="fk_guardian_trail_sandbox_id_sandbox",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("sandbox_id", name="pk_guardian_trail"),
    )
    op.create_table(
        "intervention",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("sandbox_id", sa.String(32), nullable=False),
        sa.Column("spec_id", sa.String(32), nullable=False),
        sa.Column("task_id", sa.String(32), nullable=True),
        sa.Column("at_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_type", sa.String(100), nullable=False),
        sa.Column("rule", sa.String(32), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("settled_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["sandbox_id"],
            ["sandbox.id"],
            name="fk_intervention_sandbox_id_sandbox",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["spec_id"], ["spec.id"], name="fk_intervention_spec_id_spec", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_intervention"),
    )
    op.create_index("ix_intervention_sandbox_id_at_seq", "intervention", ["sandbox_id", "at_seq"])
    op.create_index("ix_intervention_spec_id_created_at", "intervention", ["spec_id", "created_at"])


def downgrade() -> None:
    op.drop_table("intervention")
    op.drop_table("guardian_trail")
