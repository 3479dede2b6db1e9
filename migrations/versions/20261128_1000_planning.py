"""add planning: phases, a spec's plan and its approval, the repository's settings, planning sandboxes.

Revision 20261128_1000.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "20261128_1000"
down_revision = "20261128_0745"
branch_labels = None
depends_on = None

# The column types as they were when this step was written; later changes of the models must not change them.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
LIVE = "task_id IS NULL AND state IN ('COMPLETING', 'CREATING', 'PENDING', 'RUNNING')"

SPEC_COLUMNS = (
    ("settings", JSON),
    ("settings_sha", sa.String(64)),
    ("plan_hash", sa.String(64)),
    ("plan_shown_hash", sa.String(64)),
    ("plan_shown", JSON),
    ("plan_comment_id", sa.BigInteger()),
    ("plan_comment_url", sa.Text()),
    ("questions_comment_id", sa.BigInteger()),
    ("questions_comment_url", sa.Text()),
    ("approved_hash", sa.String(64)),
    ("approved_by", sa.String(100)),
)
SPEC_COUNTERS = ("plan_revision", "plan_attempts")


def upgrade() -> None:
    op.create_table(
        "phase",
        sa.Column("spec_id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "pending", "running", "completed", "failed",
                name="state", native_enum=False, create_constraint=True, length=32,
            ),
            nullable=False,
        ),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("checks", JSON, nullable=False),
        sa.Column("findings", JSON, nullable=False),
        sa.Column("output", JSON, nullable=True),
        sa.Column("sandbox_id", sa.String(32), nullable=True),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["spec_id"], ["spec.id"], name=op.f("fk_phase_spec_id_spec"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("spec_id", "name", name=op.f("pk_phase")),
    )  # fmt: skip
    with op.batch_alter_table("spec", schema=None) as batch_op:
        for name, kind in SPEC_COLUMNS:
            batch_op.add_column(sa.Column(name, kind, nullable=True))
        for name in SPEC_COUNTERS:
            batch_op.add_column(sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        batch_op.add_column(sa.Column("noted_seq", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_index(
        "uq_sandbox_live_planning", "sandbox", ["spec_id"], unique=True,
        sqlite_where=sa.text(LIVE), postgresql_where=sa.text(LIVE),
    )  # fmt: skip


def downgrade() -> None:
    op.drop_index("uq_sandbox_live_planning", table_name="sandbox")
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        batch_op.drop_column("noted_seq")
    with op.batch_alter_table("spec", schema=None) as batch_op:
        for name in (*SPEC_COUNTERS, *(name for name, _kind in SPEC_COLUMNS)):
            batch_op.drop_column(name)
    op.drop_table("phase")
