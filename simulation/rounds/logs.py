"""Silences the logs of coordinator and agents during a simulation, and counts their errors.

A fleet logs tens of thousands of lines that nobody reads. A correct system logs no errors except for a full disk, so
each kind of error is counted, and the first of each kind is kept with its traceback.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

EXPECTED = frozenset({"not_stored"})
"""Logged for a full disk, which is one of the faults; any other error is a defect."""
_ERROR = 40


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors logged so far."""

    counts: Counter[str] = field(default_factory=Counter)  # by event
    first: dict[str, str] = field(default_factory=dict)  # event -> its first log line, with traceback

    @property
    def unexpected(self) -> dict[str, str]:
        """Event -> first log line of each error that no fault explains."""
        return {event: line for event, line in self.first.items() if event not in EXPECTED}


@contextmanager
def errors_counted() -> Iterator[Errors]:
    """Drop every log line within the block, and count errors."""
    errors = Errors()
    in_words = structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0)

    def count(logger: Any, method: str, event: Any) -> Any:
        name = str(event["event"])
        errors.counts[name] += 1
        if name not in errors.first:
            errors.first[name] = in_words(logger, method, structlog.processors.format_exc_info(logger, method, event))
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[count], wrapper_class=structlog.make_filtering_bound_logger(_ERROR), cache_logger_on_first_use=False
    )
    try:
        yield errors
    finally:
        structlog.configure(**before)
