"""The examples on a device: typed messages in the database, and a folder for task types that learn from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from nightjar.models.manifest import KEYBOARD
from nightjar.models.source import NO_EXAMPLES, Source
from nightjar.models.task_types import usable
from nightjar.wire.errors import ExamplesError

log = structlog.get_logger()


class Messages(Protocol):
    """The typed messages."""

    def count(self) -> int:
        """Number of stored messages."""

    def texts(self) -> list[str]:
        """The messages that a session learns from, oldest first."""


@dataclass(frozen=True, slots=True)
class CountedMessages:
    """The messages for a process that must not read them, and only knows how many there are: the trainer reads them."""

    count: Callable[[], int]

    def texts(self) -> list[str]:
        """None of them."""
        return []


class DeviceExamples:
    """Implements :class:`nightjar.edge_agent.ports.ExampleStore`. Reads the folder again when something in it changes.

    ``messages`` is None on a device that has never stored any.
    """

    def __init__(self, messages: Messages | None, folder: Path | None = None) -> None:
        self._messages = messages
        self._folder = folder
        self._seen: object = None
        self._counts: Mapping[str, int] = {}
        self._problems: Mapping[str, str] = {}

    def count(self) -> int:
        """Number of messages, and of the folder's examples of the task type that finds most."""
        self._look()
        typed = 0 if self._messages is None else self._messages.count()
        return typed + max(self._counts.values(), default=0)

    def source(self) -> Source:
        """What a session learns from."""
        texts = [] if self._messages is None else self._messages.texts()
        return Source(texts, None if self._folder is None else str(self._folder))

    def task_types(self) -> tuple[str, ...]:
        """The task types with a plug-in, and after a colon why the folder's examples cannot be used."""
        self._look()
        found = {KEYBOARD: "", **self._problems}
        return tuple(name if not problem else f"{name}:{problem}" for name, problem in sorted(found.items()))

    def _look(self) -> None:
        seen = _fingerprint(self._folder)
        if seen == self._seen:
            return
        counts: dict[str, int] = {}
        problems: dict[str, str] = {}
        for name, kind in usable().items():
            if name == KEYBOARD:
                continue
            try:
                counts[name] = 0 if self._folder is None else kind.count(Source(folder=str(self._folder)))
                problems[name] = "" if counts[name] else NO_EXAMPLES
            except ExamplesError as error:
                problems[name] = error.problem
                if error.problem != NO_EXAMPLES:  # which the examples of other task types look like
                    log.warning("examples_cannot_be_used", task_type=name, why=str(error))
            except Exception as error:  # a plug-in may raise anything
                problems[name] = "plug-in-failed"
                log.warning("examples_cannot_be_used", task_type=name, why=f"{type(error).__name__}: {error}"[:300])
        self._seen, self._counts, self._problems = seen, counts, problems


def _fingerprint(folder: Path | None) -> object:
    """Changes when a file in the folder, or in a folder in it, is added, removed or replaced."""
    if folder is None:
        return ()
    try:
        paths = [folder, *(sorted(folder.iterdir()) if folder.is_dir() else ())]
        return tuple((path.name, (about := path.stat()).st_mtime_ns, about.st_size) for path in paths)
    except OSError as error:
        return error.errno
