"""Rate limits of devices: a device that sends far more than any agent does is cut off for a while.

One table for everything that a device sends: messages over MQTT, requests and connections over HTTPS. It knows names
only. Who enforces the verdict: the MQTT client drops a device's messages before the driver sees them, the web server
refuses its requests, and the broker is told to refuse it (:mod:`nightjar.coordinator.enrolment.revocation`). The
embedded broker has a table of its own, because it can stop reading: it counts what a device's connection brings before
it looks at it, and tells the coordinator whom it cut off.

The limit is the generic cell rate algorithm, which keeps one number for each device (ATM Forum, Traffic Management 4.0,
section 4.4.2). Nothing is stored: a device that still floods after a restart is cut off again within a second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

PER_SECOND = 40.0
"""Messages a second that a device may send for ever. An agent sends a few in a minute."""
BURST = 1000
"""Messages that a device may send at once: the largest report has 547 chunks, and may be sent again."""
MESSAGE_BYTES = 75 * 1024
"""A longer message counts as several, so 73 MiB may be sent at once: the largest report, and a seventh of it again."""
REQUEST_COST = 10
CONNECTION_COST = 20
"""What a request and a connection over HTTPS cost, in messages: a handshake takes as long as the work of some messages.
So a device may make 100 requests at once, and four a second; an agent makes ten for a round."""
FIRST_CUT_OFF_S = 60.0
LONGEST_CUT_OFF_S = 3600.0
FORGOTTEN_AFTER_S = 86400.0
"""A device's next cut-off is twice as long as the one before, unless it behaved for this long."""
MOST_IDLE = 4096
"""Devices whose allowance is kept although it may be full again."""


def cost_of(size_bytes: int) -> float:
    """What a message over MQTT costs.

    >>> cost_of(0), cost_of(120 * 1024)
    (1.0, 1.6)
    """
    return max(1.0, size_bytes / MESSAGE_BYTES)


@dataclass(frozen=True, slots=True)
class CutOff:
    """A device that was cut off, and for how long; times are those of the clock that was passed in."""

    device: str
    until_s: float
    lasts_s: float


class DeviceRateLimits:
    """Counts what devices send. Thread-safe.

    Args:
        now_s: a monotonic clock.
        flooded: called once for each cut-off, from any thread; must not block.
        per_second: what a device may send in the long run.
        burst: what a device may send at once.
    """

    def __init__(
        self,
        now_s: Callable[[], float],
        flooded: Callable[[CutOff], None] = lambda _cut_off: None,
        per_second: float = PER_SECOND,
        burst: int = BURST,
    ) -> None:
        self._now_s, self._flooded = now_s, flooded
        self._interval_s, self._tolerance_s = 1 / per_second, (burst - 0.5) / per_second
        self._lock = threading.Lock()
        self._full_at_s: dict[str, float] = {}  # when the device's allowance is full again
        self._most_kept = MOST_IDLE
        self._cut_off: dict[str, CutOff] = {}  # also of late: the next one lasts longer

    def admits(self, device: str, cost: float = 1) -> bool:
        """Count a message of a device, or what costs as much as several; False if it is to be dropped unread.

        >>> limits = DeviceRateLimits(lambda: 0.0, burst=2)
        >>> [limits.admits("pi") for _ in range(3)], limits.admits("another")
        ([True, True, False], True)
        """
        now_s = self._now_s()
        with self._lock:
            last = self._cut_off.get(device)
            if last is not None and now_s < last.until_s:
                return False
            full_at_s = max(self._full_at_s.get(device, now_s), now_s)
            if full_at_s - now_s <= self._tolerance_s:
                if len(self._full_at_s) > self._most_kept:
                    self._forget_idle(now_s)
                self._full_at_s[device] = full_at_s + cost * self._interval_s
                return True
            cut_off = self._begin(device, now_s)
        self._flooded(cut_off)
        return False

    def cut(self, device: str) -> None:
        """Cut a device off that flooded somebody who counts on his own; nothing changes if it is cut off already."""
        now_s = self._now_s()
        with self._lock:
            last = self._cut_off.get(device)
            if last is not None and now_s < last.until_s:
                return
            cut_off = self._begin(device, now_s)
        self._flooded(cut_off)

    def is_cut_off(self, device: str) -> bool:
        """Whether a device is cut off now."""
        return self.remaining_s(device) > 0

    def cut_off(self) -> frozenset[str]:
        """The devices that are cut off now."""
        now_s = self._now_s()
        with self._lock:
            past = [each for each, last in self._cut_off.items() if now_s > last.until_s + FORGOTTEN_AFTER_S]
            for device in past:
                del self._cut_off[device]
            return frozenset(each for each, last in self._cut_off.items() if now_s < last.until_s)

    def remaining_s(self, device: str) -> float:
        """Seconds until a device is let in again; 0 if it is not cut off."""
        with self._lock:
            last = self._cut_off.get(device)
        return 0.0 if last is None else max(0.0, last.until_s - self._now_s())

    def _begin(self, device: str, now_s: float) -> CutOff:
        self._full_at_s.pop(device, None)
        last = self._cut_off.get(device)
        lasts_s = FIRST_CUT_OFF_S if last is None else min(2 * last.lasts_s, LONGEST_CUT_OFF_S)
        begun = self._cut_off[device] = CutOff(device, now_s + lasts_s, lasts_s)
        return begun

    def _forget_idle(self, now_s: float) -> None:
        """Drop the allowances that are full again; those of devices that sent something lately stay."""
        self._full_at_s = {device: full_at_s for device, full_at_s in self._full_at_s.items() if full_at_s > now_s}
        self._most_kept = max(MOST_IDLE, 2 * len(self._full_at_s))  # so the cost of a message does not grow
