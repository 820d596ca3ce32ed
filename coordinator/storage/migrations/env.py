"""Runs migrations on the connection that the database adapter hands over."""

from __future__ import annotations

from alembic import context

from coordinator.storage.tables import METADATA

config = getattr(context, "config", None)
if config is not None:  # it is None for whoever imports this file without Alembic, such as a collector of doctests
    context.configure(
        connection=config.attributes["connection"],
        target_metadata=METADATA,
        render_as_batch=True,  # SQLite cannot alter a table in place
    )
    with context.begin_transaction():
        context.run_migrations()
