"""A unit of work: collects the changes of a batch of events until they are committed.

It reads and writes the open transaction and the snapshot beside it, and holds the effects to carry out after the
commit. It decides nothing and sends nothing: :mod:`nightjar.coordinator.engine.round_service` says what is written.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog
from msgspec.structs import replace

from nightjar.coordinator.ports import Transaction
from nightjar.coordinator.records.effects import PendingEffect
from nightjar.coordinator.records.rounds import StoredSum
from nightjar.coordinator.records.snapshot import Snapshot
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.round import Round
from nightjar.coordinator.tasks.operations import AuditEntry
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.task import OVER

_log = structlog.get_logger("coordinator")


class UnitOfWork:
    """The changes of a batch of events.

    Attributes:
        snapshot: open tasks, rounds and versions after the changes so far.
        effects: effects to carry out after the commit, in order.
        after_commit: calls to make after the commit that need no durability, such as log lines.
    """

    def __init__(self, tx: Transaction, now_s: float, snapshot: Snapshot) -> None:
        self.tx = tx
        self.now_s = now_s
        self.snapshot = snapshot.copy()
        self.effects: list[PendingEffect] = []
        self.after_commit: list[Callable[[], object]] = []

    def save_task(self, record: TaskRecord) -> None:
        """Save a task; the snapshot keeps it while it is not over or has an open round."""
        if record.state.status in OVER and record.name not in self.snapshot.rounds:
            self.snapshot.tasks.pop(record.name, None)
        else:
            self.snapshot.tasks[record.name] = record
        self.tx.save_task(record)

    def spend_privacy(self, task: str, number: int) -> None:
        """Count a round against its task's differential privacy, once, whatever becomes of the round."""
        record = self.snapshot.tasks[task]
        state = record.state
        if state.noise is not None and number not in state.noised:
            noise = state.noise.after(len(state.noised))  # this round's may not serve another, and is not kept
            self.save_task(replace(record, state=replace(state, noised=(*state.noised, number), noise=noise)))

    def save_round(self, state: Round, base: VersionRecord | None = None) -> None:
        """Save an open round; ``base``, its base version, is needed for a new one."""
        self.tx.save_round(state)
        self.snapshot.rounds[state.task] = state
        if base is not None:
            self.snapshot.bases[state.number] = base

    def close_round(self, ended: Round) -> None:
        """Take a round that has ended out of the snapshot, and delete its secure sum."""
        if self.snapshot.sums.pop(ended.number, None) is not None:
            self.tx.drop_sum(ended.number)
        del self.snapshot.rounds[ended.task]
        del self.snapshot.bases[ended.number]

    def keep_sum(self, number: int, held: StoredSum) -> None:
        """Store the secure sum of a round."""
        self.tx.save_sum(number, held)
        self.snapshot.sums[number] = held

    def log(self, event: str, **fields: object) -> None:
        """Log a line after the commit."""
        self.after_commit.append(lambda: _log.info(event, **fields))

    def warn(self, event: str, **fields: object) -> None:
        """Log a warning after the commit."""
        self.after_commit.append(lambda: _log.warning(event, **fields))

    def audit(self, who: str, action: str, target: str, before: str, after: str) -> None:
        """Note an operator's change in the audit log."""
        self.tx.add_audit(
            AuditEntry(at_s=self.now_s, who=who, action=action, target=target, before=before[:200], after=after[:200])
        )
