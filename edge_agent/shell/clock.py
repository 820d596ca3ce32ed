"""The device's clocks, and which of them it believes (docs/adr/0064). The only place in the agent that reads the time.

The newest trusted time is in ``clock.json`` in the data folder. The agent writes it; its other processes only read.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import msgspec

from nightjar.host.files import read_file, replace_file
from nightjar.host.system_clock import read_clock
from nightjar.host.trusted_time import TimeMark, confirmed, distrust, mark_due, next_mark

FILE = "clock.json"


class _Kept(msgspec.Struct, frozen=True):
    """The newest trusted time, seconds since 1970 UTC, and whether the kernel was ever synchronised here."""

    newest_s: float | None = None
    synchronised_once: bool = False


class SystemClock:
    """Implements :class:`nightjar.edge_agent.ports.DatingClock`. Thread-safe.

    ``data_dir`` has the newest trusted time; without one only a synchronised kernel is believed. ``keeps`` makes this
    the one clock that writes it.
    """

    def __init__(self, data_dir: Path | None = None, *, keeps: bool = False) -> None:
        self._path = None if data_dir is None else data_dir / FILE
        self._keeps = keeps and data_dir is not None
        self._lock = threading.Lock()
        self._kept = self._read()
        self._mark = None if self._kept.newest_s is None else TimeMark(self._kept.newest_s)

    def monotonic_s(self) -> float:
        """Seconds on a clock that never jumps."""
        return time.monotonic()

    def wall_s(self) -> float:
        """Seconds since 1970 UTC according to the device's clock, which may be wrong."""
        return time.time()  # noqa: TID251 - this is the adapter

    def trusted_s(self) -> float | None:
        """Seconds since 1970 UTC; None while the clock is not trusted."""
        with self._lock:
            self._refresh()
            reading = read_clock()
            if distrust(self._mark, reading):
                return None
            first = reading.synchronised and not self._kept.synchronised_once
            if self._keeps and (first or mark_due(self._mark, reading)):
                self._keep(_Kept(reading.wall_s, reading.synchronised or self._kept.synchronised_once))
                self._mark = next_mark(self._mark, reading)
            return reading.wall_s

    def certain_s(self) -> float | None:
        """The time that what is typed is dated with; None while it is not certain.

        A board without a battery starts where it stopped, which is trusted and may be months ago: where the kernel was
        synchronised once, its word is waited for.
        """
        with self._lock:
            self._refresh()
            reading = read_clock()
            waits = self._kept.synchronised_once and not reading.synchronised
            return None if waits or distrust(self._mark, reading) else reading.wall_s

    def distrust(self) -> str:
        """Why the clock is not trusted, in words; empty if it is."""
        with self._lock:
            self._refresh()
            return distrust(self._mark, read_clock())

    def compare(self, signed_s: float) -> None:
        """Note when a new order was signed: a clock that agrees with the coordinator's is trusted from now on."""
        with self._lock:
            reading = read_clock()
            if self._keeps and distrust(self._mark, reading) and confirmed(self._mark, reading, signed_s):
                self._keep(_Kept(reading.wall_s, self._kept.synchronised_once))
                self._mark = TimeMark(reading.wall_s, reading.running_s)

    def _refresh(self) -> None:
        if not self._keeps:
            self._kept = self._read()
            self._mark = None if self._kept.newest_s is None else TimeMark(self._kept.newest_s)

    def _read(self) -> _Kept:
        try:
            return _Kept() if self._path is None else msgspec.json.decode(read_file(self._path), type=_Kept)
        except (OSError, msgspec.MsgspecError):
            return _Kept()  # a lost time comes back with the next order

    def _keep(self, kept: _Kept) -> None:
        if self._path is None:
            return
        with contextlib.suppress(OSError):  # a full disk: with the next question
            replace_file(self._path, msgspec.json.encode(kept))
            self._kept = kept
