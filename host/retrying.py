"""Goes on trying while the disk or the database refuses: a disk that is full for some minutes must not cost a round."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from wire.backoff import BackOff
from wire.errors import UnavailableError

STORE_AGAIN = BackOff(first_s=1.0, most_s=60.0)
"""A lock is gone in a moment, room on a disk when somebody makes it; trying costs next to nothing."""
GIVE_UP_AFTER_S = 600.0
"""A disk that is full for ten minutes needs a person, and a supervisor that sees the process end calls one."""

_Done = TypeVar("_Done")


def keep_trying(
    attempt: Callable[[], _Done],
    pause: Callable[[float], object],
    refused: Callable[[UnavailableError, float], None],
    back_off: BackOff = STORE_AGAIN,
    give_up_after_s: float = GIVE_UP_AFTER_S,
) -> _Done:
    """Try until it works.

    Args:
        attempt: may be called again after it raised UnavailableError.
        pause: waits for so many seconds, as ``time.sleep``; what it returns is true if we are to end, as with
            ``threading.Event.wait``.
        refused: called with each error and the wait that follows.
        back_off: the waits, without jitter: nobody else waits for this disk.
        give_up_after_s: of waiting.

    Raises:
        UnavailableError: it still does not work, after so much waiting or one last attempt at the end.
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
