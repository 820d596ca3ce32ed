"""Formats numbers, times, sizes and codes for people, on pages and in commands."""

from __future__ import annotations

import datetime

from nightjar.host.sizes import size_text

_CODES = {
    "attempt": "of another attempt",
    "away": "not connected",
    "bad-examples": "its examples cannot be used",
    "checked-in": "waiting for a round",
    "codec": "in another codec",
    "examples": "no training examples",
    "fetch-failed": "could not fetch the model",
    "figures": "an evaluation is missing, or too much",
    "ineligible": "not eligible",
    "layout": "of another parameter layout",
    "low-resources": "too little memory or disk space",
    "metered": "metered network",
    "no-examples": "no examples to learn from",
    "not-finite": "a value is not finite",
    "not-selected": "it was not selected",
    "outside-limits": "asked for more than the device allows",
    "paused": "learning is paused",
    "payload": "its values cannot be read",
    "present": "connected",
    "ready": "connected, waiting for a round",
    "settling": "eligible for a moment",
    "silent": "never heard of again",
    "untrusted": "the order's or the program's signature is not trusted",
    "version": "of another base version",
}
"""Codes whose words are not the code without hyphens."""


def si_bytes(count: float | None) -> str:
    """A number of bytes, if it is known.

    >>> si_bytes(950), si_bytes(5_649_000), si_bytes(None)
    ('950 B', '5.6 MB', '-')
    """
    return "-" if count is None else size_text(count)


def percent(share: float | None) -> str:
    """A share as a percentage.

    >>> percent(0.1234), percent(None)
    ('12.3 %', '-')
    """
    return "-" if share is None else f"{100 * share:.1f} %"


def points(mean: float | None, error: float | None = None, *, sign: bool = False) -> str:
    """A figure in percent or points of percent, with its standard error if it is known.

    >>> points(31.24, 0.81), points(1.0, sign=True), points(None)
    ('31.2 ± 0.8', '+1.0', '-')
    """
    if mean is None:
        return "-"
    written = f"{mean:+.1f}" if sign else f"{mean:.1f}"
    return written if error is None else f"{written} ± {error:.1f}"


def nats(loss: float | None) -> str:
    """A loss, in nats.

    >>> nats(4.56789), nats(None)
    ('4.568', '-')
    """
    return "-" if loss is None else f"{loss:.3f}"


def duration(seconds: float | None) -> str:
    """A duration, in at most two units.

    >>> duration(3.4), duration(200), duration(9000), duration(200_000), duration(None)
    ('3.4 s', '3 min 20 s', '2 h 30 min', '2 d 7 h', '-')
    """
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def utc(seconds: float | None) -> str:
    """A date and time, UTC.

    >>> utc(1_795_000_000.0), utc(None)
    ('2026-11-18 11:06:40', '-')
    """
    return "-" if seconds is None else calendar_time(seconds).strftime("%Y-%m-%d %H:%M:%S")


def clock(seconds: float) -> str:
    """The hour and minute of a time, UTC.

    >>> clock(1_795_000_000.0)
    '11:06'
    """
    return calendar_time(seconds).strftime("%H:%M")


def calendar_time(seconds: float) -> datetime.datetime:
    """A time in UTC; the last one of the calendar for one after it or for none, the first for one before 1970.

    >>> calendar_time(1e300).year, calendar_time(float("nan")).year, calendar_time(-5.0).year
    (9999, 9999, 1970)
    """
    latest = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
    within = max(0.0, seconds) if seconds < latest.timestamp() else latest.timestamp()
    return datetime.datetime.fromtimestamp(within, datetime.UTC)


def thousands(number: float | None) -> str:
    """A whole number with thousands separators.

    >>> thousands(1234567), thousands(None)
    ('1,234,567', '-')
    """
    return "-" if number is None else f"{number:,.0f}"


def in_words(code: str | None) -> str:
    """A device's state, a cause, a report's error code, an audit action or a stage in words.

    >>> in_words("in-use"), in_words("no-examples"), in_words(None)
    ('in use', 'no examples to learn from', '-')
    """
    return _CODES.get(code, code.replace("-", " ")) if code else "-"
