"""The database's schema, step by step. `app.db.migrate` runs it; `alembic.ini` is for writing a new step."""
