"""Exit statuses of the commands, listed in docs/flashing.md. 2 and 3 match :mod:`nightjar.wire.errors`."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit statuses of ``nightjar-firmware``."""

    DONE = 0
    USAGE = 2
    UNAVAILABLE = 3
    REFUSED = 4
    NOT_CONFIRMED = 5
    IMAGE_UNUSABLE = 6
    WRITE_FAILED = 7
    VERIFY_FAILED = 8
    CUSTOMISE_FAILED = 9
    CHECK_FAILED = 10
    INTERRUPTED = 130
