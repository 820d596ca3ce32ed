"""Alembic's migrations of the coordinator's database, run at every start."""
