"""Is a report what was asked for? Asked before it is stored and receipted.

Everything is judged but the positions of a sparse update: reading those takes a millisecond or two, thirty times as
long as all else together, and would make a burst wait. The frame's CRC has vouched for them; a report whose positions
cannot be read after all, which only a faulty or hostile device can write, is left out of the mean when it is decoded
there (:mod:`coordinator.engine.aggregation`). How large an update is, is no reason to refuse it: it is clipped there.

Pure. Whether the device was selected at all is the round's question (codes ``not-selected`` and ``attempt``); here the
content is judged. Codes are stable and go back to the device in an INVALID receipt:

============== =====================================================================
``codec``      another codec than the assignment asked for
``layout``     fingerprint of another parameter layout
``version``    the delta was taken against another model version
``examples``   no training example behind the update
``payload``    the bytes cannot be the values of an update (and other codes of wire.codec)
``not-finite`` a value is infinite or not a number
``figures``    the evaluation that was asked for is missing, or something else came with it
============== =====================================================================
"""

from __future__ import annotations

import math

import msgspec

from wire.codec import Codec
from wire.errors import RemoteProtocolError
from wire.frame import NO_UPDATE, Report
from wire.parameters import ParameterLayout

REPORT_SLACK_BYTES = 4096
"""Headers, counts and scales that a report may have beside its values."""


class Asked(msgspec.Struct, frozen=True):
    """What the assignment asked of the report.

    Attributes:
        codec: of the payload.
        layout: of the model.
        version: of the base model.
    """

    codec: Codec
    layout: ParameterLayout
    version: int


class Accepted(msgspec.Struct, frozen=True):
    """The report is sound.

    Attributes:
        norm: L2 norm of the update.
    """

    norm: float


class Invalid(msgspec.Struct, frozen=True):
    """The report must not be counted.

    Attributes:
        code: stable name of the fault.
        detail: what was expected and what came.
    """

    code: str
    detail: str


def max_report_bytes(layout: ParameterLayout) -> int:
    """Largest report that any codec makes of this model: the dense one."""
    return 4 * layout.size + REPORT_SLACK_BYTES


def check_report(report: Report, asked: Asked) -> Accepted | Invalid:
    """Judge the content of a report."""
    fault = _header_fault(report, asked)
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
    """Judge the content of a report that was to hold an evaluation and no update."""
    if report.layout != asked.layout.fingerprint:
        return Invalid("layout", f"expected layout {asked.layout.fingerprint}, got {report.layout}")
    if report.version != asked.version:
        return Invalid("version", f"expected figures of version {asked.version}, got {report.version}")
    if report.evaluation is None or report.evaluation.counted < 1 or report.payload or report.codec != NO_UPDATE:
        return Invalid("figures", "expected an evaluation of at least one word, and no update beside it")
    return Accepted(0.0)


def _header_fault(report: Report, asked: Asked) -> Invalid | None:
    if report.codec != asked.codec.wire_id:
        return Invalid("codec", f"expected codec {asked.codec.wire_id} ({asked.codec.name}), got {report.codec}")
    if report.layout != asked.layout.fingerprint:
        return Invalid("layout", f"expected layout {asked.layout.fingerprint}, got {report.layout}")
    if report.version != asked.version:
        return Invalid("version", f"expected a delta against version {asked.version}, got {report.version}")
    if report.num_examples < 1:
        return Invalid("examples", "expected at least 1 training example behind the update, got 0")
    return None
