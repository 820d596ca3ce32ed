"""Drives the machine of releases: store the record, then run the effects, then whatever they came to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from firmware_scripts.device.releases import Decline, Effect, Event, Record, State, step


class Records(Protocol):
    """Where the record is kept."""

    def load(self) -> Record[State]:
        """The record."""

    def save(self, record: Record[State]) -> None:
        """Store it, whole or not at all."""


class SystemActions(Protocol):
    """Who runs effects; each may run twice."""

    def run(self, effect: Effect) -> Event | None:
        """Run one, and say what came of it where the machine has to know."""


class Switch:
    """The running machine of a device.

    Args:
        records: where the record is kept.
        actions: run effects.
        alone: held while an event is taken: two switches at once would each undo what the other does.
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
        """Take an event and all that comes of it; the record then, and why an offer was declined.

        Raises:
            OSError: the record cannot be stored; nothing was done then.
            IllegalEvent: nothing like that can happen now.
            UnavailableError: another switch is at work.
        """
        with self._alone():
            return self._take(event)

    def _take(self, event: Event) -> tuple[Record[State], Decline | None]:
        record, declined = self._records.load(), None
        events: deque[Event] = deque([event])
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
