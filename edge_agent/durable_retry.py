"""What could not be stored: the disk is full, or another program holds the database.

It did not happen then. Most of it happens again by itself: the coordinator repeats, conditions are judged at the next
poll. What nobody would repeat is *owed*: it is kept here, in its order, and let happen again until it is stored. All of
it is said once, and once more when something is stored again.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator

import structlog

from edge_agent.ports import Clock
from host.retrying import STORE_AGAIN
from wire.errors import LocalProtocolError, UnavailableError


class DurableRetry:
    """The driver's patience; it belongs to the driver's thread.

    Args:
        clock: time.
        jitter: numbers in [0, 1).
        log: where it is said.
    """

    def __init__(self, clock: Clock, jitter: Callable[[], float], log: structlog.typing.FilteringBoundLogger) -> None:
        self._clock, self._jitter, self._log = clock, jitter, log
        self._refused = 0
        self._owed: deque[Callable[[], None]] = deque()
        self._tries, self._again_at_s = 0, 0.0

    @property
    def due_at_s(self) -> float | None:
        """When what is owed is to be tried again; None if nothing is."""
        return self._again_at_s if self._owed else None

    def run_until_stored(self, happening: Callable[[], None]) -> None:
        """Let something happen that nobody repeats: if it cannot be stored now, then when it is due again.

        Raises:
            UnavailableError: not now.
        """
        self._owed.append(happening)
        if len(self._owed) == 1:
            self._tries, self._again_at_s = 0, self._clock.monotonic_s()
        self.catch_up()

    def catch_up(self) -> None:
        """Let happen what is owed, if it is due.

        Raises:
            UnavailableError: it still cannot be stored.
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
        """Something was stored."""
        if self._refused:
            self._log.info("stored_again", failed_tries=self._refused)
            self._refused = 0

    @contextlib.contextmanager
    def contained(self) -> Iterator[None]:
        """What could not be stored did not happen, and what cannot happen is ignored: both are said, and we go on."""
        try:
            yield
        except UnavailableError as error:
            self._refused += 1
            if self._refused == 1:  # and not once a second for days: that would fill what is left of the disk
                self._log.error("not_stored", error=str(error), again="until it works; said once")
        except LocalProtocolError as error:
            self._log.error("illegal_event", error=str(error))
