"""create tables.

Revision 20261128_0252, the first.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "20261128_0252"
down_revision = None
branch_labels = None
depends_on = None

# The column types as they were when this step was written; later changes of the models must not change it.
TIME = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "delivery",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("event", sa.String(length=64), nullable=False),
        sa.Column("headers", JSON, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("received_at", TIME, nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "received",
                "handled",
                "ignored",
                "failed",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column("intent", sa.String(length=32), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("action", sa.String(length=64), nullable=True),
        sa.Column("installation_id", sa.BigInteger(), nullable=True),
        sa.Column("repo_id", sa.BigInteger(), nullable=True),
        sa.Column("issue_number", sa.Integer(), nullable=True),
        sa.Column("spec_id", sa.String(length=32), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before_at", TIME, nullable=True),
        sa.Column("claimed_until_at", TIME, nullable=True),
        sa.Column("handled_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delivery")),
    )
    with op.batch_alter_table("delivery", schema=None) as batch_op:
        batch_op.create_index("ix_delivery_repo_id_issue_number", ["repo_id", "issue_number"], unique=False)
        batch_op.create_index("ix_delivery_state_received_at", ["state", "received_at"], unique=False)

    op.create_table(
        "effect",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("repo_id", sa.BigInteger(), nullable=False),
        sa.Column("payload", JSON, nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "pending",
                "done",
                "failed",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("remote_id", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before_at", TIME, nullable=False),
        sa.Column("claimed_until_at", TIME, nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("done_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_effect")),
        sa.UniqueConstraint("key", name=op.f("uq_effect_key")),
    )
    with op.batch_alter_table("effect", schema=None) as batch_op:
        batch_op.create_index("ix_effect_state_not_before_at", ["state", "not_before_at"], unique=False)

    op.create_table(
        "installation",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("account_id", sa.BigInteger(), nullable=True),
        sa.Column("account_login", sa.String(length=100), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("not_before_at", TIME, nullable=True),
        sa.Column("next_write_at", TIME, nullable=True),
        sa.Column("updated_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation")),
    )
    op.create_table(
        "lock",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("until_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_lock")),
    )
    op.create_table(
        "operation",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("until_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_operation")),
    )
    op.create_table(
        "process",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("host_id", sa.String(length=64), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("beat_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_process")),
    )
    op.create_table(
        "repository",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(length=100), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("default_branch", sa.String(length=255), nullable=True),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_repository")),
    )
    with op.batch_alter_table("repository", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_repository_installation_id"), ["installation_id"], unique=False)

    op.create_table(
        "spec",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("repo_id", sa.BigInteger(), nullable=False),
        sa.Column("issue_number", sa.Integer(), nullable=False),
        sa.Column("trigger_key", sa.String(length=255), nullable=False),
        sa.Column(
            "flow",
            sa.Enum(
                "full", "plan", "quick", name="flow", native_enum=False, create_constraint=True, length=32
            ),
            nullable=False,
        ),
        sa.Column(
            "state",
            sa.Enum(
                "queued",
                "planning",
                "awaiting_approval",
                "implementing",
                "in_review",
                "paused",
                "completed",
                "failed",
                "cancelled",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("issue_labels", JSON, nullable=False),
        sa.Column("trigger_label", sa.String(length=100), nullable=False),
        sa.Column("labeler_id", sa.BigInteger(), nullable=False),
        sa.Column("labeler_login", sa.String(length=100), nullable=False),
        sa.Column("base_branch", sa.String(length=255), nullable=True),
        sa.Column("base_sha", sa.String(length=64), nullable=True),
        sa.Column("default_branch", sa.String(length=255), nullable=True),
        sa.Column("branch", sa.String(length=255), nullable=True),
        sa.Column("branch_attempts", sa.Integer(), nullable=False),
        sa.Column("start_sha", sa.String(length=64), nullable=True),
        sa.Column("head_sha", sa.String(length=64), nullable=True),
        sa.Column("push_sha", sa.String(length=64), nullable=True),
        sa.Column("pull_number", sa.Integer(), nullable=True),
        sa.Column("pull_node_id", sa.String(length=100), nullable=True),
        sa.Column("pull_url", sa.Text(), nullable=True),
        sa.Column("pull_state", sa.String(length=16), nullable=True),
        sa.Column("pull_ready_at", TIME, nullable=True),
        sa.Column("review_asked_at", TIME, nullable=True),
        sa.Column("status_comment_id", sa.BigInteger(), nullable=True),
        sa.Column("status_comment_url", sa.Text(), nullable=True),
        sa.Column("status_body_sha", sa.String(length=64), nullable=True),
        sa.Column("status_written_at", TIME, nullable=True),
        sa.Column("concluded_at", TIME, nullable=True),
        sa.Column("outcome", sa.String(length=32), nullable=True),
        sa.Column("outcome_detail", sa.Text(), nullable=True),
        sa.Column("notes", JSON, nullable=False),
        sa.Column("cancel_reason", sa.String(length=64), nullable=True),
        sa.Column("cancel_asked_at", TIME, nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("stepped_version", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(length=64), nullable=True),
        sa.Column("lease_until_at", TIME, nullable=False),
        sa.Column("due_at", TIME, nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.Column("ended_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_spec")),
        sa.UniqueConstraint(
            "repo_id", "issue_number", "trigger_key", name=op.f("uq_spec_repo_id_issue_number_trigger_key")
        ),
    )
    with op.batch_alter_table("spec", schema=None) as batch_op:
        batch_op.create_index("ix_spec_concluded_at_due_at", ["concluded_at", "due_at"], unique=False)
        batch_op.create_index("ix_spec_created_at_id", ["created_at", "id"], unique=False)
        batch_op.create_index("ix_spec_repo_id_pull_number", ["repo_id", "pull_number"], unique=False)
        batch_op.create_index(
            "uq_spec_live_repo_id_issue_number",
            ["repo_id", "issue_number"],
            unique=True,
            sqlite_where=sa.text(
                "state IN ('awaiting_approval', 'implementing', 'in_review', 'paused', 'planning', 'queued')"
            ),
            postgresql_where=sa.text(
                "state IN ('awaiting_approval', 'implementing', 'in_review', 'paused', 'planning', 'queued')"
            ),
        )

    op.create_table(
        "check_run",
        sa.Column("spec_id", sa.String(length=32), nullable=False),
        sa.Column("head_sha", sa.String(length=64), nullable=False),
        sa.Column("check_run_id", sa.BigInteger(), nullable=True),
        sa.Column("conclusion", sa.String(length=32), nullable=True),
        sa.Column("output_sha", sa.String(length=64), nullable=True),
        sa.Column("written_at", TIME, nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["spec_id"], ["spec.id"], name=op.f("fk_check_run_spec_id_spec"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("spec_id", "head_sha", name=op.f("pk_check_run")),
    )
    with op.batch_alter_table("check_run", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_check_run_check_run_id"), ["check_run_id"], unique=False)

    op.create_table(
        "task",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("spec_id", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "pending",
                "assigned",
                "running",
                "completed",
                "failed",
                "cancelled",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("detail", JSON, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["spec_id"], ["spec.id"], name=op.f("fk_task_spec_id_spec"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task")),
        sa.UniqueConstraint("spec_id", "key", name=op.f("uq_task_spec_id_key")),
    )
    with op.batch_alter_table("task", schema=None) as batch_op:
        batch_op.create_index("ix_task_created_at_id", ["created_at", "id"], unique=False)
        batch_op.create_index(batch_op.f("ix_task_spec_id"), ["spec_id"], unique=False)

    op.create_table(
        "sandbox",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("spec_id", sa.String(length=32), nullable=False),
        sa.Column("task_id", sa.String(length=32), nullable=True),
        sa.Column("phase", sa.String(length=32), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "PENDING",
                "CREATING",
                "RUNNING",
                "COMPLETING",
                "COMPLETED",
                "FAILED",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("provider", sa.String(length=16), nullable=False),
        sa.Column("provider_name", sa.String(length=100), nullable=False),
        sa.Column("host_id", sa.String(length=64), nullable=True),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("start_sha", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=True),
        sa.Column("budget_usd", sa.Double(), nullable=False),
        sa.Column("spent_usd", sa.Double(), nullable=False),
        sa.Column("reserved_usd", sa.Double(), nullable=False),
        sa.Column("session_id", sa.String(length=64), nullable=True),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("tools", sa.Integer(), nullable=False),
        sa.Column("last_tool", sa.String(length=200), nullable=True),
        sa.Column("activity", sa.String(length=16), nullable=True),
        sa.Column("last_heartbeat_at", TIME, nullable=True),
        sa.Column("last_work_at", TIME, nullable=True),
        sa.Column("collected_round", sa.Integer(), nullable=False),
        sa.Column("manifest_round", sa.Integer(), nullable=False),
        sa.Column("stop_asked_at", TIME, nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("deadline_at", TIME, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("removed_at", TIME, nullable=True),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["spec_id"], ["spec.id"], name=op.f("fk_sandbox_spec_id_spec"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["task_id"], ["task.id"], name=op.f("fk_sandbox_task_id_task"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sandbox")),
        sa.UniqueConstraint("provider_name", name=op.f("uq_sandbox_provider_name")),
        sa.UniqueConstraint("task_id", "attempt", name=op.f("uq_sandbox_task_id_attempt")),
    )
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        batch_op.create_index("ix_sandbox_created_at_id", ["created_at", "id"], unique=False)
        batch_op.create_index("ix_sandbox_removed_at", ["removed_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_sandbox_spec_id"), ["spec_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_sandbox_token_hash"), ["token_hash"], unique=False)
        batch_op.create_index(
            "uq_sandbox_live_task_id",
            ["task_id"],
            unique=True,
            sqlite_where=sa.text("state IN ('COMPLETING', 'CREATING', 'PENDING', 'RUNNING')"),
            postgresql_where=sa.text("state IN ('COMPLETING', 'CREATING', 'PENDING', 'RUNNING')"),
        )

    op.create_table(
        "artifact",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("sandbox_id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["sandbox_id"], ["sandbox.id"], name=op.f("fk_artifact_sandbox_id_sandbox"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_artifact")),
    )
    with op.batch_alter_table("artifact", schema=None) as batch_op:
        batch_op.create_index(
            "uq_artifact_current_sandbox_id_name",
            ["sandbox_id", "name"],
            unique=True,
            sqlite_where=sa.text("current"),
            postgresql_where=sa.text("current"),
        )

    op.create_table(
        "event",
        sa.Column("sandbox_id", sa.String(length=32), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("event_type", sa.String(length=100), nullable=False),
        sa.Column("event_data", JSON, nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("timestamp", TIME, nullable=False),
        sa.Column("received_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["sandbox_id"], ["sandbox.id"], name=op.f("fk_event_sandbox_id_sandbox"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("sandbox_id", "seq", name=op.f("pk_event")),
    )
    with op.batch_alter_table("event", schema=None) as batch_op:
        batch_op.create_index(
            "ix_event_sandbox_id_event_type_seq", ["sandbox_id", "event_type", "seq"], unique=False
        )

    op.create_table(
        "message",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("sandbox_id", sa.String(length=32), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("message_type", sa.String(length=32), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("author_id", sa.BigInteger(), nullable=True),
        sa.Column(
            "state",
            sa.Enum(
                "queued",
                "sent",
                "acknowledged",
                "refused",
                "cancelled",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("sent_at", TIME, nullable=True),
        sa.Column("acknowledged_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["sandbox_id"], ["sandbox.id"], name=op.f("fk_message_sandbox_id_sandbox"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_message")),
        sa.UniqueConstraint("sandbox_id", "seq", name=op.f("uq_message_sandbox_id_seq")),
    )
    op.create_table(
        "model_call",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("sandbox_id", sa.String(length=32), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("reserved_usd", sa.Double(), nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("cache_tokens", sa.Integer(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("settled_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["sandbox_id"], ["sandbox.id"], name=op.f("fk_model_call_sandbox_id_sandbox"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_call")),
    )
    with op.batch_alter_table("model_call", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_model_call_sandbox_id"), ["sandbox_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_model_call_settled_at"), ["settled_at"], unique=False)

    op.create_table(
        "artifact_chunk",
        sa.Column("artifact_id", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["artifact_id"],
            ["artifact.id"],
            name=op.f("fk_artifact_chunk_artifact_id_artifact"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("artifact_id", "position", name=op.f("pk_artifact_chunk")),
    )


def downgrade() -> None:
    op.drop_table("artifact_chunk")
    with op.batch_alter_table("model_call", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_model_call_settled_at"))
        batch_op.drop_index(batch_op.f("ix_model_call_sandbox_id"))

    op.drop_table("model_call")
    op.drop_table("message")
    with op.batch_alter_table("event", schema=None) as batch_op:
        batch_op.drop_index("ix_event_sandbox_id_event_type_seq")

    op.drop_table("event")
    with op.batch_alter_table("artifact", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_artifact_current_sandbox_id_name",
            sqlite_where=sa.text("current"),
            postgresql_where=sa.text("current"),
        )

    op.drop_table("artifact")
    with op.batch_alter_table("sandbox", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_sandbox_live_task_id",
            sqlite_where=sa.text("state IN ('COMPLETING', 'CREATING', 'PENDING', 'RUNNING')"),
            postgresql_where=sa.text("state IN ('COMPLETING', 'CREATING', 'PENDING', 'RUNNING')"),
        )
        batch_op.drop_index(batch_op.f("ix_sandbox_token_hash"))
        batch_op.drop_index(batch_op.f("ix_sandbox_spec_id"))
        batch_op.drop_index("ix_sandbox_removed_at")
        batch_op.drop_index("ix_sandbox_created_at_id")

    op.drop_table("sandbox")
    with op.batch_alter_table("task", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_task_spec_id"))
        batch_op.drop_index("ix_task_created_at_id")

    op.drop_table("task")
    with op.batch_alter_table("check_run", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_check_run_check_run_id"))

    op.drop_table("check_run")
    with op.batch_alter_table("spec", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_spec_live_repo_id_issue_number",
            sqlite_where=sa.text(
                "state IN ('awaiting_approval', 'implementing', 'in_review', 'paused', 'planning', 'queued')"
            ),
            postgresql_where=sa.text(
                "state IN ('awaiting_approval', 'implementing', 'in_review', 'paused', 'planning', 'queued')"
            ),
        )
        batch_op.drop_index("ix_spec_repo_id_pull_number")
        batch_op.drop_index("ix_spec_created_at_id")
        batch_op.drop_index("ix_spec_concluded_at_due_at")

    op.drop_table("spec")
    with op.batch_alter_table("repository", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_repository_installation_id"))

    op.drop_table("repository")
    op.drop_table("process")
    op.drop_table("operation")
    op.drop_table("lock")
    op.drop_table("installation")
    with op.batch_alter_table("effect", schema=None) as batch_op:
        batch_op.drop_index("ix_effect_state_not_before_at")

    op.drop_table("effect")
    with op.batch_alter_table("delivery", schema=None) as batch_op:
        batch_op.drop_index("ix_delivery_state_received_at")
        batch_op.drop_index("ix_delivery_repo_id_issue_number")

    op.drop_table("delivery")
