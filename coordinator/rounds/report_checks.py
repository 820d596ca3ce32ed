"""Checks the content of a report before it is stored and receipted.

All of it is checked except the positions of a sparse update. Reading them takes a millisecond or two, thirty times as
long as all other checks together, and would slow down a burst. The frame's CRC has already protected them in transit.
Only a faulty or hostile device can send unreadable positions; such a report is left out of the mean when it is decoded
(:mod:`nightjar.coordinator.engine.aggregation`). A large update is not refused but clipped when it is averaged.

Pure. The round itself checks whether the device was selected (codes ``not-selected`` and ``attempt``). Codes are stable
and go back to the device in an INVALID receipt:

============== =====================================================================
``codec``      the codec is not the assigned one
``layout``     the fingerprint is that of another parameter layout
``version``    the delta is relative to another model version
``examples``   the update has no training examples
``payload``    the bytes cannot be the values of an update (and other codes of wire.codec)
``not-finite`` a value is infinite or not a number
``figures``    the requested evaluation is missing, or the report also holds an update
``secure-sum`` the masked update is not what the secure sum awaits
============== =====================================================================
"""

from __future__ import annotations

import math

import msgspec

from nightjar.wire.codec import Codec
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.frame import MASKED_UPDATE, NO_UPDATE, Report
from nightjar.wire.parameters import ParameterLayout
from nightjar.wire.secure_sum.messages import MaskedUpdate, decode_up

REPORT_SLACK_BYTES = 4096
"""Maximum size of a report's headers, counts and scales, in addition to its values."""


class Asked(msgspec.Struct, frozen=True):
    """What the assignment requires of the report."""

    codec: Codec
    layout: ParameterLayout
    version: int


class Accepted(msgspec.Struct, frozen=True):
    """The report is valid; ``norm`` is the L2 norm of its update."""

    norm: float


class Invalid(msgspec.Struct, frozen=True):
    """The report must not be counted; ``detail`` says what was expected and what was received."""

    code: str
    detail: str


def max_report_bytes(layout: ParameterLayout) -> int:
    """Maximum size of a report for this model, which the dense codec produces."""
    return 4 * layout.size + REPORT_SLACK_BYTES


def check_report(report: Report, asked: Asked) -> Accepted | Invalid:
    """Check the content of a report with an update."""
    fault = _header_fault(report, asked, asked.codec.wire_id, asked.codec.name)
    if fault is None and report.num_examples < 1:
        fault = Invalid("examples", "expected at least 1 training example behind the update, got 0")
    if fault is not None:
        return fault
    try:
        norm = asked.codec.read(report.payload, asked.layout).norm
    except RemoteProtocolError as error:
        return Invalid(error.code, str(error))
    if not math.isfinite(norm):
        return Invalid("not-finite", "the update holds a value that is not finite")
    return Accepted(norm)


def check_figures(report: Report, asked: Asked) -> Accepted | Invalid:
    """Check the content of a report that must hold an evaluation and no update."""
    if report.layout != asked.layout.fingerprint:
        return Invalid("layout", f"expected layout {asked.layout.fingerprint}, got {report.layout}")
    if report.version != asked.version:
        return Invalid("version", f"expected figures of version {asked.version}, got {report.version}")
    if report.evaluation is None or report.evaluation.counted < 1 or report.payload or report.codec != NO_UPDATE:
        return Invalid("figures", "expected an evaluation of at least one word, and no update beside it")
    return Accepted(0.0)


def check_masked(report: Report, asked: Asked) -> MaskedUpdate | Invalid:
    """Check the content of a report that must hold a masked update; the session checks the update itself."""
    fault = _header_fault(report, asked, MASKED_UPDATE, "a masked update")
    if fault is not None:
        return fault
    try:
        update = decode_up(report.payload)
    except RemoteProtocolError as error:
        return Invalid(error.code, str(error))
    return update if isinstance(update, MaskedUpdate) else Invalid("payload", "expected a masked update")


def _header_fault(report: Report, asked: Asked, codec: int, name: str) -> Invalid | None:
    if report.codec != codec:
        return Invalid("codec", f"expected codec {codec} ({name}), got {report.codec}")
    if report.layout != asked.layout.fingerprint:
        return Invalid("layout", f"expected layout {asked.layout.fingerprint}, got {report.layout}")
    if report.version != asked.version:
        return Invalid("version", f"expected a delta against version {asked.version}, got {report.version}")
    return None
