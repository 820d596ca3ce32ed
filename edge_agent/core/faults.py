"""Errors as values, so that a child process can answer with one."""

from __future__ import annotations

import msgspec

from nightjar.wire import errors
from nightjar.wire.errors import LocalProtocolError, NightjarError, RemoteProtocolError, UnavailableError


class Fault(msgspec.Struct, frozen=True):
    """An error of :mod:`nightjar.wire.errors`; of any other only the type, because its text may quote typed text."""

    kind: str
    text: str
    code: str


def fault_of(error: Exception) -> Fault:
    """Turn an error into a fault that can be sent.

    >>> fault_of(KeyError("what was typed")).text
    'unforeseen KeyError'
    """
    if isinstance(error, NightjarError):
        return Fault(type(error).__name__, str(error), error.code)
    if isinstance(error, MemoryError):
        text = "memory: examples and model take more than conditions.training_memory_bytes: raise it, or keep fewer"
        return Fault(UnavailableError.__name__, text, UnavailableError.code)
    return Fault(LocalProtocolError.__name__, f"unforeseen {type(error).__name__}", LocalProtocolError.code)


def error_of(fault: Fault) -> NightjarError:
    """Inverse of :func:`fault_of`.

    >>> error_of(Fault("RemoteProtocolError", "no program", "program")).code
    'program'
    """
    kind: type[NightjarError] = getattr(errors, fault.kind)
    if issubclass(kind, RemoteProtocolError):
        return kind(fault.text, code=fault.code)
    return kind(fault.text)
