"""Logging setup for every program: one event per line on standard error, as logfmt or as JSON.

Messages of libraries that use :mod:`logging` get the same form. Only events and numbers are logged: typed text, tokens
and parameters are never passed to a logger.
"""

from __future__ import annotations

import enum
import logging
import math
import os
import sys
from collections.abc import Mapping, Set

import structlog

_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
"""Control characters, escaped: untrusted input must not move the cursor of a reader's terminal or start a new line."""


def configure_logs(level: str, *, json: bool = False) -> None:
    """Set up structlog and logging for this process.

    The level is ``debug``, ``info``, ``warning`` or ``error``; ``json`` writes one JSON object per line instead of
    logfmt.
    """
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    render = structlog.processors.JSONRenderer() if json else _logfmt
    plain = _as_data if json else _as_words
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            stamp,
            structlog.processors.format_exc_info,
            _without_nothing,
            plain,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    theirs: list[structlog.typing.Processor] = [structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name, stamp]
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=theirs,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                render,
            ],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _without_nothing(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {key: value for key, value in event.items() if value is not None}


def in_words(value: object) -> object:
    """What a log line has for a value: no notation of a Python object, which nobody searches for.

    >>> import enum, pathlib
    >>> colour = enum.Enum("Colour", {"RED": "red"})
    >>> in_words((colour.RED, pathlib.Path("/data"), ValueError("too long"))), in_words({"names": {"b", "a"}})
    ('red, /data, too long', 'names=a, b')
    >>> in_words(b"secret"), in_words(0.5), in_words(colour), in_words(object())
    ('6 bytes', 0.5, 'Colour', 'an object')
    >>> in_words(4.150739678128838), in_words(1795947299.2969203), in_words(1e-12), in_words(float("inf"))
    (4.151, 1795947299.297, 1e-12, inf)
    """
    found = in_data(value)
    if isinstance(found, float) and math.isfinite(found):
        return round(found, 3) if abs(found) >= 1 else float(f"{found:.3g}")
    if isinstance(found, list):
        return ", ".join(str(in_words(each)) for each in found)
    if isinstance(found, dict):
        return " ".join(f"{name}={in_words(each)}" for name, each in found.items())
    return found


def in_data(value: object) -> object:
    """A value as JSON can have it: see :func:`in_words`.

    >>> in_data((1, {"b", "a"})), in_data(TimeoutError())
    ([1, ['a', 'b']], 'TimeoutError')
    """
    match value:
        case enum.Enum():
            return in_data(value.value)
        case None | bool() | int() | float() | str():
            return value
        case os.PathLike():
            return os.fspath(value)
        case bytes() | bytearray() | memoryview():
            return f"{len(value)} bytes"
        case BaseException():
            return str(value) or type(value).__name__
        case Mapping():
            return {str(in_data(name)): in_data(each) for name, each in value.items()}
        case Set():
            return sorted((in_data(each) for each in value), key=str)
        case list() | tuple():
            return [in_data(each) for each in value]
        case type():
            return value.__name__
        case _:
            return _of_an_object(value)


def _of_an_object(value: object) -> object:
    item = getattr(value, "item", None)  # a number of numpy's, which this package does not know
    if callable(item) and getattr(value, "ndim", None) == 0:
        return in_data(item())
    names = list(getattr(value, "__struct_fields__", ()) or getattr(value, "__dataclass_fields__", ()))
    if names:
        return {name: in_data(getattr(value, name)) for name in names}
    return f"an {type(value).__name__}" if type(value).__name__[:1] in "aeiouAEIOU" else f"a {type(value).__name__}"


def _as_words(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {key: in_words(value) for key, value in event.items()}


def _as_data(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {key: in_data(value) for key, value in event.items()}


def _logfmt(logger: object, method: str, event: structlog.typing.EventDict) -> str:
    render = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False)
    return render(logger, method, event).translate(_ESCAPED)
