"""Alembic's environment: runs migrations on the connection that the database adapter passes in."""

from __future__ import annotations

from alembic import context

from nightjar.coordinator.storage.tables import METADATA

config = getattr(context, "config", None)
if config is not None:  # None if something other than Alembic imports this file, such as doctest collection
    context.configure(
        connection=config.attributes["connection"],
        target_metadata=METADATA,
        render_as_batch=True,  # SQLite cannot alter a table in place
    )
    with context.begin_transaction():
        context.run_migrations()
