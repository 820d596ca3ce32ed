"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """One schema version on."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """And back."""
    ${downgrades if downgrades else "pass"}
