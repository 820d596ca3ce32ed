"""Retries events that could not be stored because the disk is full or another program holds the database.

An event that cannot be stored counts as not having happened. Most events recur by themselves: the coordinator repeats
its messages, and conditions are judged at the next poll. Events that no other party would repeat are *owed*: they are
kept here in order and retried until they are stored. The failure is logged once, and so is the recovery.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator

import structlog

from nightjar.edge_agent.ports import Clock
from nightjar.host.retrying import STORE_AGAIN
from nightjar.wire.errors import LocalProtocolError, UnavailableError


class DurableRetry:
    """The queue of owed events. Use it on the driver's thread only."""

    def __init__(self, clock: Clock, jitter: Callable[[], float], log: structlog.typing.FilteringBoundLogger) -> None:
        self._clock, self._jitter, self._log = clock, jitter, log
        self._refused = 0
        self._owed: deque[Callable[[], None]] = deque()
        self._tries, self._again_at_s = 0, 0.0

    @property
    def due_at_s(self) -> float | None:
        """When the owed events are to be retried; None if there are none."""
        return self._again_at_s if self._owed else None

    def run_until_stored(self, happening: Callable[[], None]) -> None:
        """Handle an event that no other party repeats; if it cannot be stored now, retry it later.

        Raises:
            UnavailableError: it could not be stored now.
        """
        self._owed.append(happening)
        if len(self._owed) == 1:
            self._tries, self._again_at_s = 0, self._clock.monotonic_s()
        self.catch_up()

    def catch_up(self) -> None:
        """Retry the owed events that are due.

        Raises:
            UnavailableError: an event still cannot be stored.
        """
        now_s = self._clock.monotonic_s()
        while self._owed and now_s >= self._again_at_s:
            happening = self._owed.popleft()
            try:
                happening()
            except UnavailableError:
                self._owed.appendleft(happening)
                self._tries += 1
                self._again_at_s = now_s + STORE_AGAIN.delay_s(self._tries, self._jitter())
                raise

    def stored(self) -> None:
        """Note that storing works again."""
        if self._refused:
            self._log.info("stored_again", failed_tries=self._refused)
            self._refused = 0

    @contextlib.contextmanager
    def contained(self) -> Iterator[None]:
        """Log and suppress two errors: an event that could not be stored, and an event that is illegal now."""
        try:
            yield
        except UnavailableError as error:
            self._refused += 1
            if self._refused == 1:  # not every second for days: that would fill the rest of the disk
                self._log.error("not_stored", error=str(error), again="until it works; said once")
        except LocalProtocolError as error:
            self._log.error("illegal_event", error=str(error))
