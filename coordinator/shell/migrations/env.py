"""Runs migrations on the connection that the database adapter hands over."""

from __future__ import annotations

from alembic import context

from coordinator.shell.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,  # SQLite cannot alter a table in place
)
with context.begin_transaction():
    context.run_migrations()
