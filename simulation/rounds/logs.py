"""What both sides log while they are simulated: silenced, and their errors counted.

A fleet says tens of thousands of lines that nobody reads. Errors are another matter: a sound system says none but that
a disk is full, so each kind is counted, and the first of each is kept with its traceback.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

EXPECTED = frozenset({"not_stored"})
"""Said about a full disk, which is one of the faults; anything else at that level is a defect."""
_ERROR = 40


@dataclass(frozen=True, slots=True)
class Errors:
    """Error lines.

    Attributes:
        counts: how many, by event.
        first: the first of each, for people.
    """

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    @property
    def unexpected(self) -> dict[str, str]:
        """The first of each that no fault explains."""
        return {event: line for event, line in self.first.items() if event not in EXPECTED}


@contextmanager
def errors_counted() -> Iterator[Errors]:
    """Within the block every log line is dropped, and errors are counted."""
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
