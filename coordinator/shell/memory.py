"""How Python and the C library handle memory in a service that has nothing to do for minutes, and then bursts."""

from __future__ import annotations

import ctypes
import gc

KEPT_FREE_BYTES = 64 * 2**20
"""What a burst of a thousand reports takes at once is half of it; the C library may keep as much for each thread."""

_M_TRIM_THRESHOLD = -1


def spare_the_collector() -> None:
    """Let Python look for garbage in cycles more rarely.

    A burst makes tens of thousands of objects that stay until the round is over, and none of them in cycles; looking
    at all of them again and again took up to a seventh of the driver's time; not in every run. Nor too rarely: nothing
    else runs meanwhile, and after 50,000 new objects every page waited for 30 to 120 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 100)


def keep_freed_memory() -> bool:
    """Let the C library keep what a burst frees, for the next one; whether it can.

    By default it gives it back to the kernel at once, and every page of it costs a fault when it is needed again: with
    bursts of a thousand reports five faults a report were counted (docs/adr/0011). Only glibc can; another library is
    left as it is.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_TRIM_THRESHOLD, KEPT_FREE_BYTES))
    except (OSError, AttributeError):
        return False
