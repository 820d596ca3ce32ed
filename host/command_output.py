"""Standard output of commands: what it does not take, as on a full disk, is said in words.

A reader that has gone is no error: a command ends quietly then.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from nightjar.wire.errors import UnavailableError


def watch_output() -> None:
    """Let this process's standard output raise an error of ours where it cannot be written."""
    if sys.stdout is not None:  # it may be closed
        sys.stdout = cast(TextIO, _WatchedOutput(sys.stdout))


class _WatchedOutput:
    """A stream that says what it could not write.

    Raises:
        BrokenPipeError: nobody reads it any more.
        UnavailableError: it cannot be written for another reason.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _in_words():
            return self._stream.write(text)

    def flush(self) -> None:
        with _in_words():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stdout = None  # or Python tries once more when it ends, and says so
        msg = f"expected a standard output that can be written, got: {error.strerror}; is a disk full?"
        raise UnavailableError(msg) from error
