"""Recorded availability of real phones: windows in which a phone was idle, charging and on Wi-Fi.

The file is CSV with the columns device, trace_start_s, trace_end_s, window_start_s, window_end_s, for example the field
study of 710 phones in FLHetBench (Yang et al. 2021, "FLASH"; parsed in Carkham/FLHetBench). A phone repeats its whole
days. Time 0 is a midnight.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from wire.errors import ConfigError

DAY_S = 86_400.0
COLUMNS = ("trace_start_s", "trace_end_s", "window_start_s", "window_end_s")

Window = tuple[float, float]
"""Beginning and end, in seconds of virtual time; the end is later than the beginning."""


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
