"""Bytes that were written once and must be read for ever: tests/vectors/v1 is never edited."""

import json
import struct
from pathlib import Path

import pytest

from nightjar.wire.codec import NAMES, codec_for
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.frame import Report, decode
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, ParameterSpec
from tests.wire import independent_decoder

VECTORS = Path(__file__).parents[1] / "vectors" / "v1"
REPORTS = json.loads((VECTORS / "reports.json").read_text())
HOSTILE = json.loads((VECTORS / "hostile.json").read_text())
CODECS = {codec.wire_id: codec for codec in (codec_for(CodecChoice(name=name)) for name in NAMES)}


def layout_of(vector):
    return ParameterLayout(tuple(ParameterSpec(name, tuple(shape)) for name, shape in vector["layout"]))


def decode_whole(frame, layout):
    """What a receiver does: frame, codec by its id, payload."""
    report = decode(frame)
    assert isinstance(report, Report)
    if report.codec not in CODECS:
        message = "unknown codec"
        raise RemoteProtocolError(message, code="codec")
    return report, CODECS[report.codec].decode(report.payload, layout)


@pytest.mark.parametrize("vector", REPORTS, ids=lambda v: v["name"])
def test_golden_report(vector):
    layout = layout_of(vector)
    report, update = decode_whole(bytes.fromhex(vector["frame"]), layout)
    assert {name: getattr(report, name) for name in vector["report"]} == vector["report"]
    assert report.layout == layout.fingerprint
    assert update.indices.tolist() == vector["indices"]
    assert update.values.astype(">f4").tobytes().hex() == vector["values"]


@pytest.mark.parametrize("vector", REPORTS, ids=lambda v: v["name"])
def test_the_independent_decoder_reads_the_same(vector):
    got = independent_decoder.decode_report(bytes.fromhex(vector["frame"]), vector["layout"])
    assert {name: got[name] for name in vector["report"]} == vector["report"]
    assert got["indices"] == vector["indices"]
    assert struct.pack(f">{len(got['values'])}f", *got["values"]).hex() == vector["values"]


@pytest.mark.parametrize("vector", HOSTILE["frames"], ids=lambda v: v["name"])
def test_hostile_frame_is_refused_with_its_code(vector):
    with pytest.raises(RemoteProtocolError) as caught:
        decode_whole(bytes.fromhex(vector["frame"]), layout_of(HOSTILE))
    assert caught.value.code == vector["code"]
