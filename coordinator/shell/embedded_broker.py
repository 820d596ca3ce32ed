"""amqtt as we need it: it asks clients for a name, and sends retained messages only to those who subscribed to them."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Any

from amqtt.broker import Broker
from amqtt.plugins.base import BaseAuthPlugin
from amqtt.session import Session


class NamedClients(BaseAuthPlugin):  # type: ignore[misc] # amqtt has no types
    """Who may connect: clients with a name, and with the password if there is one.

    amqtt forgets the sessions of anonymous clients, so a name is asked for even where any will do.
    """

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


class EmbeddedBroker(Broker):  # type: ignore[misc] # amqtt has no types
    """amqtt 0.12 sends every client that connects the retained messages of *all* subscriptions, other clients' too.

    It also walks the table of subscriptions while others change it. Both happen in the method below, which is asked for
    each subscription of anybody; without a match it returns at once, before anything can change.
    """

    async def _publish_retained_messages_for_subscription(
        self, subscription: tuple[str, int], session: Session
    ) -> None:
        subscribers: list[tuple[Any, int]] = self.subscriptions.get(subscription[0], [])
        if any(subscriber.client_id == session.client_id for subscriber, _ in subscribers):
            await super()._publish_retained_messages_for_subscription(subscription, session)
