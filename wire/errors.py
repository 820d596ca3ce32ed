"""The exception hierarchy: all errors that Nightjar raises on purpose.

::

    NightjarError
     +-- ConfigError            the person who started us must change something: a file, a flag, a port
     |    +-- CorpusError       a text corpus cannot be used
     |    +-- ExamplesError     a folder of examples cannot be used
     +-- ProtocolError
     |    +-- LocalProtocolError    our own code asked for something the protocol forbids: a defect
     |    |    +-- IllegalEvent     a state machine has no row for this event
     |    +-- RemoteProtocolError   bytes from the network or a file are not what they claim to be
     |         +-- IntegrityError   bytes do not have the hash that names them
     +-- UnavailableError       the world is broken for now (broker down, disk full): try again later

Each class has a stable ``code`` for logs and receipts; messages say what was expected, what was received and what to
do. A normal negative answer (rejected, late, ineligible) is a result type, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class NightjarError(Exception):
    """Base class of all errors.

    Attributes:
        code: stable machine-readable name, used in logs and receipts.
        exit_status: process exit status when this error ends a command.
    """

    code = "nightjar"
    exit_status = 1


class ConfigError(NightjarError):
    """The configuration or the command line cannot be used; the message lists every fault found."""

    code = "config"
    exit_status = 2


class CorpusError(ConfigError):
    """A corpus file cannot be read as (user, text) rows, or holds too little text."""

    code = "corpus"


class ExamplesError(ConfigError):
    """A folder of examples cannot be used.

    Args:
        message: what is wrong with which file, for the owner of the device; it is never sent.
        problem: one of a few fixed words, which the coordinator counts.
    """

    code = "examples"

    def __init__(self, message: str, problem: str) -> None:
        super().__init__(message)
        self.problem = problem

    def __reduce__(self) -> tuple[type[ExamplesError], tuple[str, str]]:
        """Both arguments, so that it passes from a child process (pickle)."""
        return type(self), (str(self), self.problem)


class ProtocolError(NightjarError):
    """The protocol was violated."""

    code = "protocol"


class LocalProtocolError(ProtocolError):
    """Our own code asked for something that the protocol forbids; a defect, not an input error."""

    code = "local-protocol"


class IllegalEvent(LocalProtocolError):  # noqa: N818 - named as in the state-machine literature
    """A state machine has no row for (state, event); its state is unchanged."""

    code = "illegal-event"


class RemoteProtocolError(ProtocolError):
    """Bytes from the network or from a file are not what they claim to be.

    Args:
        message: what was expected and what was received.
        code: stable name of the fault, sent back in an INVALID receipt.
    """

    code = "malformed"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class IntegrityError(RemoteProtocolError):
    """Bytes do not have the sha256 that names them."""

    code = "hash-mismatch"


class UnavailableError(NightjarError):
    """Something outside this program does not work at the moment: a broker, a disk, the network."""

    code = "unavailable"
    exit_status = 3


@contextmanager
def rewording(kind: type[NightjarError], what: str, remedy: str = "") -> Iterator[None]:
    """A block whose OSErrors become errors of ours that say what failed, why, and what to do.

    >>> with rewording(ConfigError, "cannot read notes.txt", "give another file"):
    ...     raise FileNotFoundError(2, "No such file or directory")
    Traceback (most recent call last):
    nightjar.wire.errors.ConfigError: cannot read notes.txt: No such file or directory; give another file
    """
    try:
        yield
    except OSError as error:
        msg = f"{what}: {error.strerror or error}"
        raise kind(f"{msg}; {remedy}" if remedy else msg) from error
