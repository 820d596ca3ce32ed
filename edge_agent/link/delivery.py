"""Delivers the report in the outbox: runs the outbox's machine and sends what it asks for; on the driver's thread."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from nightjar.edge_agent.core import outbox
from nightjar.edge_agent.core.events import Moment
from nightjar.edge_agent.link.uplink import Uplink
from nightjar.edge_agent.ports import Transport
from nightjar.wire.messages import Receipt

SAID_AT = (3, 10, 30)
"""Numbers of resends without a receipt that are logged, then each multiple of the last. The third resend comes some 15
seconds after the first, so it is no longer explained by a burst, a restart or a lost packet."""


class Delivery:
    """Sends the report in the outbox until there is a receipt.

    ``receipted`` deletes the report, together with the step of the lifecycle that its receipt makes.
    """

    def __init__(
        self,
        uplink: Uplink,
        transport: Transport,
        moment: Callable[[], Moment],
        receipted: Callable[[Moment, Receipt], None],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._uplink, self._transport, self._moment, self._receipted = uplink, transport, moment, receipted
        self._log = log
        self._state: outbox.State | None = None
        self._resent = 0

    @property
    def due_at_s(self) -> float | None:
        """When there is something to send; None while there is nothing, or no connection."""
        return None if self._state is None or not self._transport.connected else outbox.due_at_s(self._state)

    def put(self, parcel: outbox.Parcel) -> None:
        """Note that a report was stored in the outbox."""
        self._state = outbox.Pending(parcel)

    def drop(self) -> None:
        """Note that the outbox was emptied."""
        self._state = None

    def send_what_is_due(self) -> None:
        """Send what is due, if we are connected."""
        if self._transport.connected:
            self.step(outbox.TimePassed(self._moment()))

    def nudge(self) -> None:
        """Send again soon: the connection or the coordinator is back."""
        self.step(outbox.Nudged(self._moment()))

    def step(self, event: outbox.Event) -> None:
        """Make one transition, if there is a report.

        Raises:
            UnavailableError: the receipt could not be stored; the report stays in the outbox.
        """
        if self._state is None:
            return
        before = self._state
        state, effects = outbox.step(before, event)
        if isinstance(state, outbox.Delivered):
            receipt = state.receipt
            self._log.info(
                "receipt",
                round=receipt.round,
                verdict=receipt.verdict.value,
                code=receipt.code or None,
                sent_again=self._resent or None,
            )
            self._resent = 0
            self._receipted(event.at, receipt)
            self._state = None
            return
        self._state = state
        if effects and isinstance(before, outbox.Sent) and isinstance(event, outbox.TimePassed):
            self._resent += 1
            if self._resent in SAID_AT or self._resent % SAID_AT[-1] == 0:
                self._log.warning("no_receipt_yet", round=state.parcel.round, sent_again=self._resent)
        for effect in effects:
            match effect:
                case outbox.SendParts(parts):
                    self._uplink.report(state.parcel, parts)
                case outbox.SendQuery(parcel):
                    self._uplink.query(parcel)
