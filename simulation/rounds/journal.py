# ruff: noqa: D102 - the port says what its methods do
"""The journal of a simulated phone, which survives power cuts: in memory, and small enough for 100,000 phones.

It does the same as :mod:`nightjar.edge_agent.shell.database`, and can fail like a disk: it may be full, or lose power
before or after a change is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from nightjar.edge_agent.core.lifecycle import State
from nightjar.edge_agent.core.privacy_ledger import LedgerEntry
from nightjar.edge_agent.core.stored import Change, NewReport, PendingDropout, Remembered, SumState
from nightjar.edge_agent.ports import Journal
from nightjar.wire.errors import LocalProtocolError

MOST_PENDING_DROPOUTS = 16
"""The same limit as on a real device."""


class SimulatedJournal(Journal, Protocol):
    """The journal of a simulated phone."""

    @property
    def empty(self) -> bool:
        """Whether nothing is pending."""


class MemoryJournal:
    """Implements :class:`nightjar.edge_agent.ports.Journal`.

    ``touched`` is called before and after each change, and may raise UnavailableError or PowerCut; ``produced`` is
    called with every report that is stored.
    """

    __slots__ = (
        "_deaths",
        "_dropouts",
        "_ledger",
        "_number",
        "_report",
        "_state",
        "_summing",
        "produced",
        "touched",
    )

    def __init__(self, touched: Callable[[], None], produced: Callable[[NewReport], None]) -> None:
        self.touched = touched
        self.produced = produced
        self._state: State | None = None
        self._report: NewReport | None = None
        self._dropouts: tuple[PendingDropout, ...] = ()
        self._ledger: dict[str, LedgerEntry] = {}
        self._deaths = 0
        self._summing: SumState | None = None
        self._number = 0

    def load(self) -> Remembered:
        parcel = None if self._report is None else self._report.parcel
        return Remembered(self._state, parcel, self._deaths, self._summing)

    def ledger(self) -> list[LedgerEntry]:
        return list(self._ledger.values())

    def commit(self, change: Change) -> None:
        self.touched()
        self._state = change.lifecycle
        if change.receipted is not None:
            self._report = None
        if change.report is not None:
            self._report = change.report
            self.produced(change.report)
        for dropout in change.dropouts:
            self._number += 1
            self._dropouts = (*self._dropouts, PendingDropout(self._number, dropout))[-MOST_PENDING_DROPOUTS:]
        if change.charged is not None:
            self._ledger[change.charged.task] = change.charged
        if change.deaths is not None:
            self._deaths = change.deaths
        if change.summing is not None:
            self._summing = change.summing
        self.touched()

    def frame(self) -> bytes:
        if self._report is None:
            msg = "the outbox is empty"
            raise LocalProtocolError(msg)
        return self._report.frame

    def pending_dropouts(self) -> list[PendingDropout]:
        return list(self._dropouts)

    def dropout_sent(self, number: int) -> None:
        self._dropouts = tuple(pending for pending in self._dropouts if pending.number != number)

    @property
    def empty(self) -> bool:
        """Whether nothing is pending."""
        return self._report is None and not self._dropouts
