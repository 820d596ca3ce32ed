"""Drives the releases' state machine: stores the record, runs the effects, then handles the events they return."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from nightjar.firmware_scripts.device.releases import Decline, Effect, Event, Record, State, step


class Records(Protocol):
    """The store of the record."""

    def load(self) -> Record[State]:
        """Load the record."""

    def save(self, record: Record[State]) -> None:
        """Store the record atomically."""


class SystemActions(Protocol):
    """Runs effects; each effect may run twice."""

    def run(self, effect: Effect) -> Event | None:
        """Run an effect; return the resulting event, if there is one."""


class Switch:
    """The running state machine of a device.

    ``alone`` is a lock held while an event is handled: two switches at once would undo each other's work.
    """

    def __init__(
        self,
        records: Records,
        actions: SystemActions,
        alone: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._records = records
        self._actions = actions
        self._alone = alone

    def take(self, event: Event) -> tuple[Record[State], Decline | None]:
        """Handle an event and all events that follow; return the final record, and why an offer was declined.

        Raises:
            OSError: the record cannot be stored; its effects were not run.
            IllegalEvent: the event is not legal in the current state.
            UnavailableError: another switch is running.
        """
        with self._alone():
            record, declined = self._records.load(), None
            events = deque([event])
            while events:
                before = record
                record, effects = step(before, events.popleft())
                if record != before:
                    self._records.save(record)
                for effect in effects:
                    if isinstance(effect, Decline):
                        declined = effect
                    if (came := self._actions.run(effect)) is not None:
                        events.append(came)
            return record, declined
