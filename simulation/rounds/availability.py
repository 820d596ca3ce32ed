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

import csv
import math
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nightjar.wire.errors import ConfigError

DAY_S = 86_400.0
COLUMNS = ("trace_start_s", "trace_end_s", "window_start_s", "window_end_s")
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
Window = tuple[float, float]
"""Beginning and end, in seconds of virtual time; the end is later than the beginning."""


class Availability(Protocol):
    """When a phone is free."""

    def next_window(self, phone: int, after_s: float) -> Window:
        """The first window of a phone that ends after ``after_s``; it may have begun earlier."""


class TracedAvailability:
    """Availability from the recorded windows in a CSV file with the columns device and :data:`COLUMNS`.

    Raises:
        ConfigError: the file cannot be read, or has no window.
    """

    def __init__(self, path: Path, phones: int, generator: np.random.Generator) -> None:
        self._traces = read_traces(path)
        copies = np.arange(phones) >= len(self._traces)
        days = generator.integers(0, 7, phones) * DAY_S + generator.normal(0.0, COPY_SPREAD_S, phones)
        # Whole seconds, so that the end of a window is exact whichever way it is computed.
        self._shift_s = np.where(copies, np.round(days), 0.0)

    def next_window(self, phone: int, after_s: float) -> Window:
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
    """Random availability, different on each day: highest at night, lowest in the afternoon."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._quantiles = np.array([q for q, _ in LENGTH_QUANTILES])
        self._log_lengths = np.log([length for _, length in LENGTH_QUANTILES])

    def next_window(self, phone: int, after_s: float) -> Window:
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


@dataclass(frozen=True, slots=True)
class Trace:
    """The windows of one real phone within its period of whole days, ascending and disjoint."""

    period_s: float
    begins: tuple[float, ...]
    ends: tuple[float, ...]


def read_traces(path: Path) -> list[Trace]:
    """The traces in a file, in the order of devices.

    Raises:
        ConfigError: the file cannot be read, or has no window.
    """
    spans: dict[str, Window] = {}
    windows: dict[str, list[Window]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            for row in rows:
                values = _numbers(row)
                if values is None:
                    got = ",".join(map(str, row.values()))
                    msg = (
                        f"{path}, line {rows.line_num}: expected a device and four ascending numbers, got: {got[:200]}"
                    )
                    raise ConfigError(msg)
                spans[row["device"]] = values[0], values[1]
                windows.setdefault(row["device"], []).append((values[2], values[3]))
    except FileNotFoundError as error:
        msg = f"{path}: the file of availability windows does not exist"
        raise ConfigError(msg) from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        msg = f"{path}: expected a CSV file of availability windows: {error}"
        raise ConfigError(msg) from error
    traces = [_fold(spans[device], windows[device]) for device in sorted(windows, key=lambda name: (len(name), name))]
    traces = [trace for trace in traces if trace.begins]
    if not traces:
        msg = f"{path}: expected windows of availability under the columns {', '.join(('device', *COLUMNS))}, got none"
        raise ConfigError(msg)
    return traces


def _numbers(row: dict[str, str]) -> list[float] | None:
    """Span of the trace and window within it; None if the row is invalid."""
    try:
        values = [float(row[column]) for column in COLUMNS]
    except (KeyError, TypeError, ValueError):
        return None
    begin_s, end_s, from_s, to_s = values
    sound = "device" in row and all(map(math.isfinite, values)) and begin_s <= from_s <= to_s <= end_s
    return values if sound else None


def _fold(span: Window, windows: list[Window]) -> Trace:
    """The windows within the trace's whole days, relative to its first midnight, sorted and merged."""
    period_s = max(math.floor((span[1] - span[0]) / DAY_S), 1) * DAY_S
    midnight_s = math.ceil(span[0] / DAY_S) * DAY_S
    pieces: list[Window] = []
    for begin_s, end_s in windows:
        end_s = min(end_s, span[0] + period_s)
        length_s = end_s - begin_s
        if length_s <= 0:
            continue
        start_s = (begin_s - midnight_s) % period_s
        pieces.append((start_s, min(start_s + length_s, period_s)))
        if start_s + length_s > period_s:
            pieces.append((0.0, start_s + length_s - period_s))
    begins: list[float] = []
    ends: list[float] = []
    for begin_s, end_s in sorted(pieces):
        if ends and begin_s <= ends[-1]:
            ends[-1] = max(ends[-1], end_s)
        else:
            begins.append(begin_s)
            ends.append(end_s)
    return Trace(period_s, tuple(begins), tuple(ends))
