"""How the agent logs: one line an event, logfmt, to standard error; the coordinator's lines look the same.

Events and numbers only. Nothing that was typed, no token, no parameter is ever given to a logger.
"""

from __future__ import annotations

import logging
import sys

import structlog


def set_up(level: str) -> None:
    """Configure structlog for this process.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _without_nothing,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _without_nothing(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {key: value for key, value in event.items() if value is not None}
