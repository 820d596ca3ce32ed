"""Logging setup for every program: one event per line on standard error, as logfmt or as JSON.

Messages of libraries that use :mod:`logging` get the same form. Only events and numbers are logged: typed text, tokens
and parameters are never passed to a logger.
"""

from __future__ import annotations

import logging
import sys

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
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            stamp,
            structlog.processors.format_exc_info,
            _without_nothing,
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


def _logfmt(logger: object, method: str, event: structlog.typing.EventDict) -> str:
    render = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False)
    return render(logger, method, event).translate(_ESCAPED)
