"""Retries while the disk or the database refuses: a disk that is full for a few minutes must not cost a round."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nightjar.wire.backoff import BackOff
from nightjar.wire.errors import UnavailableError

STORE_AGAIN = BackOff(first_s=1.0, most_s=60.0)
"""Back-off for storing: a lock is released quickly, a full disk only when somebody frees space; a try is cheap."""
GIVE_UP_AFTER_S = 600.0
"""A disk that is full for ten minutes needs an operator; the supervisor alerts one when the process exits."""

_Done = TypeVar("_Done")


def keep_trying(
    attempt: Callable[[], _Done],
    pause: Callable[[float], object],
    refused: Callable[[UnavailableError, float], None],
    back_off: BackOff = STORE_AGAIN,
    give_up_after_s: float = GIVE_UP_AFTER_S,
) -> _Done:
    """Retry until the attempt succeeds.

    ``pause`` waits for the given seconds, like ``time.sleep``; it may return true to ask for an end, like
    ``threading.Event.wait``. ``refused`` is called with each error and the wait that follows. The waits have no jitter:
    no other process waits for this disk.

    Raises:
        UnavailableError: the attempt still fails after the total waiting time, or at the last try before an end.
    """
    tries, waited_s, is_last = 0, 0.0, False
    while True:
        try:
            return attempt()
        except UnavailableError as error:
            if is_last or waited_s >= give_up_after_s:
                raise
            tries += 1
            wait_s = back_off.delay_s(tries, jitter=0.0)
            refused(error, wait_s)
        is_last = bool(pause(wait_s))
        waited_s += wait_s
