"""Who may connect to the embedded broker: clients with a name, and with the password if there is one.

amqtt forgets the sessions of anonymous clients, so a name is asked for even where any will do.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from amqtt.plugins.base import BaseAuthPlugin
from amqtt.session import Session


class NamedClients(BaseAuthPlugin):  # type: ignore[misc] # amqtt has no types
    """amqtt's plugin interface."""

    @dataclass
    class Config:
        """Set by :func:`coordinator.shell.broker.run_embedded`; an empty password lets any name in."""

        username: str = ""
        password: str = ""

    async def authenticate(self, *, session: Session) -> bool:
        """Whether this client may connect."""
        if not session.username:
            return False
        if not self.config.password:
            return True
        given = f"{session.username}\0{session.password or ''}".encode()
        return hmac.compare_digest(given, f"{self.config.username}\0{self.config.password}".encode())
