"""Log lines: one event a line, on standard error, as logfmt like the agent's or as JSON.

What libraries say through :mod:`logging` has the same form.
"""

from __future__ import annotations

import logging
import sys

import structlog

from coordinator.config import LogFormat, LogLevel


def configure_logs(level: LogLevel, form: LogFormat = LogFormat.LOGFMT) -> None:
    """Set up structlog and logging for this process."""
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    render: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if form is LogFormat.LOGFMT:
        render = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False)
    structlog.configure(
        processors=[structlog.processors.add_log_level, stamp, structlog.processors.format_exc_info, render],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.name)),
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
