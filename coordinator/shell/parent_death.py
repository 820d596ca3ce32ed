"""Children that die with their parent, so that ``kill -9`` of the coordinator leaves no orphans."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends; the request survives ``exec``.

    Linux only; elsewhere nothing happens. The kernel means the *thread* that started this process, so that one must
    live as long as its process.

    Args:
        parent: process id of the parent. If it is already gone, this process ends at once.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
