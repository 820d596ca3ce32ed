"""Returns the process's free heap memory to the system: after a session, some 50 MB that a phone can use."""

from __future__ import annotations

import ctypes
import gc


def return_free_memory() -> None:
    """Return free memory if the C library can (glibc can, musl cannot)."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
