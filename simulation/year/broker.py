"""The broker of a year: lets in whom a TLS handshake would let in, and ends the sessions of revoked devices."""

from __future__ import annotations

from collections.abc import Callable

from nightjar.simulation.rounds.broker import Broker, Subscriber
from nightjar.simulation.rounds.faults import Dice
from nightjar.simulation.rounds.timeline import Timeline
from nightjar.wire.identifiers import DeviceId, Population


class GatedBroker(Broker):
    """A broker that asks ``admits`` about each connection of a device."""

    def __init__(
        self,
        timeline: Timeline,
        dice: Dice,
        population: Population,
        seen: Callable[[str, bytes], None],
        admits: Callable[[DeviceId], bool],
    ) -> None:
        super().__init__(timeline, dice, population, seen)
        self._admits = admits

    def connected(self, device: DeviceId) -> bool:
        """Whether a device has a session."""
        return device in self._phones

    def evict(self, device: DeviceId) -> None:
        """End a device's session, as the coordinator has a broker do after a revocation."""
        entry = self._phones.pop(device, None)
        if entry is not None:
            entry[0].link_down()

    def _try_connect(self, phone: Subscriber, will: tuple[str, bytes], wanted: Callable[[], bool], tries: int) -> None:
        if wanted() and self._up and not self._admits(phone.device):
            self.connect(phone, will, wanted, tries + 1)
        else:
            super()._try_connect(phone, will, wanted, tries)
