"""Log lines: one event a line, logfmt, on standard error; the agent's lines look the same."""

from __future__ import annotations

import logging
import sys

import structlog

from coordinator.config import LogLevel


def configure_logs(level: LogLevel) -> None:
    """Set up structlog for this process."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.name)),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, format="level=%(levelname)s logger=%(name)s event=%(message)r")
