"""What of the database is kept in memory, too: open tasks and rounds, and the versions that they use."""

from __future__ import annotations

from dataclasses import dataclass, field

from nightjar.coordinator.records.rounds import StoredSum
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.round import Round, seat_round
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.wire.identifiers import DeviceId


@dataclass(slots=True)
class Snapshot:
    """Open tasks, rounds and versions, keyed by task name; an in-memory copy of what the database holds.

    Attributes:
        tasks: every task that is not over or still has an open round, in order of creation.
        rounds: the open round of each task that has one.
        versions: the current version of each training task.
        training: the version that the rounds of a task train from, of each task where that is not the current one.
        bases: base version of each open round, by number of the round.
        sums: secure sum of each open round that has one, by number of the round.
        number: sequence number of orders to devices; a new one is drawn whenever the devices' version changes.
    """

    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    rounds: dict[str, Round] = field(default_factory=dict)
    versions: dict[str, VersionRecord] = field(default_factory=dict)
    training: dict[str, VersionRecord] = field(default_factory=dict)
    bases: dict[int, VersionRecord] = field(default_factory=dict)
    sums: dict[int, StoredSum] = field(default_factory=dict)
    number: int = 0

    def copy(self) -> Snapshot:
        """A copy that can be changed without changing the original."""
        return Snapshot(
            dict(self.tasks),
            dict(self.rounds),
            dict(self.versions),
            dict(self.training),
            dict(self.bases),
            dict(self.sums),
            self.number,
        )

    def head(self, task: str) -> VersionRecord | None:
        """The version that the rounds of a training task go on from; None if there is none."""
        return self.training.get(task) or self.versions.get(task)

    def round(self, number: int) -> Round | None:
        """The open round with this number; None if there is none."""
        return next((state for state in self.rounds.values() if state.number == number), None)

    def round_of_seat(self, number: int, device: DeviceId) -> Round | None:
        """The open round with this number, or the buffered one that has the device's seat of that round."""
        for state in self.rounds.values():
            seat = state.seats.get(device)
            if state.number == number or (seat is not None and seat_round(state, seat) == number):
                return state
        return None

    def rounds_of(self, device: DeviceId) -> list[Round]:
        """The open rounds in which a device waits in the pool or has a seat."""
        return [state for state in self.rounds.values() if device in state.seats or device in state.pool]
