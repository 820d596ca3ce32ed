"""When phones are free to train: windows in which a phone is idle, charging and on Wi-Fi.

Two sources: the recorded windows of real phones, and a generated pattern with the same shape. Both compute the next
window of a phone with hardly any state per phone, so a hundred thousand sleeping phones cost nothing. Time 0 is a
midnight.

The recording: 710 phones of a field study, about five days each (Yang et al. 2021, "FLASH"; PKU-Chengxu/FLASH, parsed
in Carkham/FLHetBench). Each phone repeats its whole days. Additional phones are copies, shifted by days and some
minutes so that copies are not synchronous.

The generated pattern: lengths as in that recording, beginnings with a sine density over the day.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from simulation.rounds.traces import DAY_S, Window, read_traces

WINDOWS_PER_DAY = 4.3
"""Windows per generated phone; with the lengths below, 9 % of the phones are free on average, as in the recording."""
PEAK_HOUR = 1.7
"""Hour with most beginnings; because windows last, most phones are free later, at 3 o'clock, as in the recording."""
SWING = 0.72
"""Amplitude of the density of beginnings; it gives four times as many free phones at the peak as at the minimum."""
LENGTH_QUANTILES = ((0.0, 1.0), (0.25, 10.0), (0.5, 138.0), (0.75, 1080.0), (0.9, 4200.0), (0.99, 30_240.0), (1.0, 4e4))
"""Quantiles of the window length, (share, seconds), measured on the recording."""
COPY_SPREAD_S = 1800.0
"""Standard deviation of the time shift of copied phones."""

Numbers = npt.NDArray[np.float64]


class Availability(Protocol):
    """When a phone is free."""

    def next_window(self, phone: int, after_s: float) -> Window | None:
        """The first window of a phone that ends after ``after_s``; it may have begun earlier. None if there is none."""


class TracedAvailability:
    """Availability from recorded windows.

    Args:
        path: CSV with the columns device, trace_start_s, trace_end_s, window_start_s, window_end_s.
        phones: number of phones.
        generator: draws the time shifts of copies.

    Raises:
        ConfigError: the file cannot be read, or has no window.
    """

    def __init__(self, path: Path, phones: int, generator: np.random.Generator) -> None:
        self._traces = read_traces(path)
        copies = np.arange(phones) >= len(self._traces)
        days = generator.integers(0, 7, phones) * DAY_S + generator.normal(0.0, COPY_SPREAD_S, phones)
        # Whole seconds, so that the end of a window is exact whichever way it is computed.
        self._shift_s = np.where(copies, np.round(days), 0.0)

    def next_window(self, phone: int, after_s: float) -> Window | None:
        """See :meth:`Availability.next_window`."""
        trace = self._traces[phone % len(self._traces)]
        shift_s = float(self._shift_s[phone])
        cycle, moment_s = divmod(after_s - shift_s, trace.period_s)
        place = bisect_right(trace.ends, moment_s)
        if place == len(trace.ends):
            place, cycle = 0, cycle + 1
        offset_s = cycle * trace.period_s + shift_s
        return trace.begins[place] + offset_s, trace.ends[place] + offset_s


class GeneratedAvailability:
    """Random availability, different on each day: highest at night, lowest in the afternoon.

    Args:
        seed: root seed.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._quantiles = np.array([q for q, _ in LENGTH_QUANTILES])
        self._log_lengths = np.log([length for _, length in LENGTH_QUANTILES])

    def next_window(self, phone: int, after_s: float) -> Window | None:
        """See :meth:`Availability.next_window`."""
        # The longest window is shorter than a day, so one that is open now began today or yesterday.
        day = math.floor(after_s / DAY_S) - 1
        while True:
            for begin_s, end_s in self._windows(phone, day):
                if end_s > after_s:
                    return begin_s, end_s
            day += 1

    def _windows(self, phone: int, day: int) -> list[Window]:
        if day < -1:
            return []
        generator = np.random.default_rng([self._seed, phone, day + 1])
        count = int(generator.poisson(WINDOWS_PER_DAY))
        begins = np.sort(_begin_hours(generator.random(count))) * 3600.0 + day * DAY_S
        lengths = np.exp(np.interp(generator.random(count), self._quantiles, self._log_lengths))
        windows: list[Window] = []
        for begin_s, length_s in zip(begins.tolist(), lengths.tolist(), strict=True):
            if not windows or begin_s > windows[-1][1]:
                windows.append((begin_s, begin_s + length_s))
        return windows


def _begin_hours(uniform: Numbers) -> Numbers:
    """Hours with density ``1 + SWING cos(2 pi (h - PEAK_HOUR) / 24)``, by inverse transform sampling."""
    hours = np.linspace(0.0, 24.0, 97)
    angle = 2 * np.pi / 24
    below = (hours + SWING / angle * (np.sin(angle * (hours - PEAK_HOUR)) + np.sin(angle * PEAK_HOUR))) / 24.0
    return np.asarray(np.interp(uniform, below, hours))
