"""add batches of reviews, the words heard of them, and the threads to be answered.

Revision 20261128_1400.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "20261128_1400"
down_revision = "20261128_1450"
branch_labels = None
depends_on = None

# The column types as they were when this step was written; later changes of the models must not change them.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "review_batch",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("spec_id", sa.String(32), nullable=False),
        sa.Column("pull_number", sa.Integer(), nullable=False),
        sa.Column("author_id", sa.BigInteger(), nullable=False),
        sa.Column("author_login", sa.String(100), nullable=False),
        sa.Column("looks", sa.Integer(), server_default="1", nullable=False),
        sa.Column("review_nodes", JSON, nullable=False),
        sa.Column("opened_at", TIME, nullable=False),
        sa.Column("built_at", TIME, nullable=True),
        sa.Column("answered_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["spec_id"], ["spec.id"], name=op.f("fk_review_batch_spec_id_spec"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_review_batch")),
    )
    op.create_index("ix_review_batch_spec_id", "review_batch", ["spec_id"])
    op.create_table(
        "review_word",
        sa.Column("repo_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("word_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("review_id", sa.BigInteger(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=True),
        sa.Column("edited_at", TIME, nullable=True),
        sa.Column("body_sha", sa.String(64), nullable=False),
        sa.Column("commands", JSON, nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("heard_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["review_batch.id"],
            name=op.f("fk_review_word_batch_id_review_batch"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("repo_id", "kind", "word_id", name=op.f("pk_review_word")),
    )
    op.create_index("ix_review_word_repo_id_review_id", "review_word", ["repo_id", "review_id"])
    op.create_index("ix_review_word_batch_id", "review_word", ["batch_id"])
    op.create_table(
        "review_thread",
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("root_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("comment_ids", JSON, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["review_batch.id"],
            name=op.f("fk_review_thread_batch_id_review_batch"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("batch_id", "root_id", name=op.f("pk_review_thread")),
    )


def downgrade() -> None:
    op.drop_table("review_thread")
    op.drop_table("review_word")
    op.drop_table("review_batch")
