"""What a coordinator's data takes of its disk, how fast that grows, and when the disk will be full."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from nightjar.coordinator.storage.blobs import disk
from nightjar.host.sizes import size_text

HOUR_S, DAY_S = 3600.0, 86_400.0
KEPT = 24 * 8
"""Hourly measurements that are kept: a week and a day, so that the rhythm of a week does not look like growth."""
LEAST_S = 6 * HOUR_S
"""No growth is told from a shorter time: a first hour fills what retention then empties."""
SCARCE_BYTES = 2 * 10**9
"""Free space below which people are warned: the database and a month of a small fleet's rounds with the large model."""
SOON_DAYS = 30.0
"""People are warned so long before the disk will be full."""


class DiskPoint(msgspec.Struct, frozen=True):
    """One measurement."""

    at_s: float  # wall-clock time
    used_bytes: int  # by the data folder
    free_bytes: int  # that this user may still write


class DiskForecast(msgspec.Struct, frozen=True):
    """The newest measurement, and what it means together with those before it."""

    used_bytes: int
    free_bytes: int
    growth_bytes_a_day: float | None = None  # None until it is known
    full_in_days: float | None = None  # None if it does not grow, or that is not known yet
    measured_s: float | None = None  # wall-clock time of the measurement; None while the clock is not trusted

    @property
    def scarce(self) -> bool:
        """Whether a person must do something."""
        soon = self.full_in_days is not None and self.full_in_days < SOON_DAYS
        return soon or self.free_bytes < SCARCE_BYTES

    def in_words(self) -> str:
        """The forecast in a sentence.

        >>> DiskForecast(10**9, 5 * 10**9, 10**8, 50.0).in_words()
        '1.0 GB used, 5.0 GB free; it grows by 100.0 MB a day, so the disk is full in 50 days'
        """
        found = f"{size_text(self.used_bytes)} used, {size_text(self.free_bytes)} free"
        if self.growth_bytes_a_day is None:
            return f"{found}; how fast it grows is known after {LEAST_S / HOUR_S:.0f} hours of running"
        if self.full_in_days is None:
            return f"{found}; it does not grow"
        grows = f"{size_text(self.growth_bytes_a_day)} a day"
        return f"{found}; it grows by {grows}, so the disk is full in {self.full_in_days:.0f} days"


def forecast(points: Sequence[DiskPoint]) -> DiskForecast | None:
    """What measurements say, in the order in which they were made; None without any.

    Others may fill the disk as well, so the growth is how the free space shrinks, if that is more.

    >>> points = [DiskPoint(0.0, 0, 10**9), DiskPoint(86_400.0, 10**8, 9 * 10**8)]
    >>> forecast(points).full_in_days
    9.0
    """
    if not points:
        return None
    last = points[-1]
    # A clock that was wrong for a while gives times that are not in order.
    earlier = [each for each in points if LEAST_S <= last.at_s - each.at_s <= KEPT * HOUR_S]
    if not earlier:
        return DiskForecast(last.used_bytes, last.free_bytes, measured_s=last.at_s)
    first = min(earlier, key=lambda each: each.at_s)
    days = (last.at_s - first.at_s) / DAY_S
    growth = max(last.used_bytes - first.used_bytes, first.free_bytes - last.free_bytes, 0) / days
    full = last.free_bytes / growth if growth >= 1e5 else None  # a tenth of a megabyte a day is noise
    return DiskForecast(last.used_bytes, last.free_bytes, growth, full, last.at_s)


def forecast_of(folder: Path, points: Sequence[DiskPoint], now_s: float | None) -> DiskForecast:
    """Measure a data folder, and say what it means together with the measurements before.

    Without a trusted time, it is taken for measured when the last one was: that rather calls the growth too fast.

    Raises:
        UnavailableError: the disk does not work.
    """
    at_s = now_s if now_s is not None else points[-1].at_s if points else 0.0
    found = forecast((*points, measured(folder, at_s)))
    assert found is not None  # there is a measurement
    return found if now_s is not None else msgspec.structs.replace(found, measured_s=None)


def with_point(points: Sequence[DiskPoint], new: DiskPoint) -> tuple[DiskPoint, ...]:
    """The measurements with a new one, if the last is an hour old or later than it."""
    if points and 0 <= new.at_s - points[-1].at_s < HOUR_S:
        return tuple(points)
    return (*points, new)[-KEPT:]


def measured(folder: Path, now_s: float) -> DiskPoint:
    """Measure a data folder.

    Raises:
        UnavailableError: the disk does not work.
    """
    with disk(folder):
        used = sum(_lengths(folder))
        return DiskPoint(now_s, used, shutil.disk_usage(folder).free)


def _lengths(folder: Path) -> Iterator[int]:
    """What each file takes of the disk; files that vanish meanwhile are left out."""
    for parent, _folders, names in os.walk(folder):
        for name in names:
            try:
                yield 512 * Path(parent, name).lstat().st_blocks
            except FileNotFoundError:
                continue
