"""Reports of codecs 3 to 7 that were written once and must be read for ever, by our decoder and another."""

import json
import struct
from pathlib import Path

import pytest

from tests.wire import independent_decoder
from tests.wire.independent_modelled import Refused
from wire.codec import codec_for
from wire.codec.masks import mask_from_bytes
from wire.errors import RemoteProtocolError
from wire.frame import decode
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout, ParameterSpec

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "updates.json").read_text())
LAYOUT = ParameterLayout(tuple(ParameterSpec(name, tuple(shape)) for name, shape in VECTORS["layout"]))


@pytest.mark.parametrize("vector", VECTORS["updates"], ids=lambda v: v["name"])
def test_golden_update(vector):
    mask = None if vector["mask"] is None else mask_from_bytes(bytes.fromhex(vector["mask"]), LAYOUT)
    codec = codec_for(CodecChoice(name=vector["codec"]), mask)
    report = decode(bytes.fromhex(vector["frame"]))
    assert report.codec == codec.wire_id
    update = codec.decode(report.payload, LAYOUT)
    assert update.indices.tolist() == vector["indices"]
    assert update.values.astype(">f4").tobytes().hex() == vector["values"]


@pytest.mark.parametrize("vector", VECTORS["updates"], ids=lambda v: v["name"])
def test_the_independent_decoder_reads_the_same_update(vector):
    mask = (
        ()
        if vector["mask"] is None
        else independent_decoder.decode_mask(bytes.fromhex(vector["mask"]), VECTORS["layout"])
    )
    got = independent_decoder.decode_report(bytes.fromhex(vector["frame"]), VECTORS["layout"], mask)
    assert got["indices"] == vector["indices"]
    assert struct.pack(f">{len(got['values'])}f", *got["values"]).hex() == vector["values"]


@pytest.mark.parametrize("vector", VECTORS["hostile"], ids=lambda v: v["name"])
def test_a_hostile_update_is_refused_by_both(vector):
    report = decode(bytes.fromhex(vector["frame"]))
    with pytest.raises(RemoteProtocolError):
        codec_for(CodecChoice(name="topk-4")).decode(report.payload, LAYOUT)
    with pytest.raises(Refused):
        independent_decoder.decode_report(bytes.fromhex(vector["frame"]), VECTORS["layout"])
