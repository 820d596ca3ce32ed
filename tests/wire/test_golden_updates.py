"""One golden vector a corner of the format, and one lie a hostile vector: the codecs and the independent decoder agree.

Codecs 3 to 6 and transfers; ``python -m tests.vectors.make_updates`` made the files, which are never edited.
"""

import json
import re
import struct
import zlib
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from nightjar.wire.codec import codec_for
from nightjar.wire.codec.codecs import WIRE_IDS
from nightjar.wire.codec.transfers import apply_transfer
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.frame import KIND_EVALUATED_REPORT, KIND_KEYBOARD_REPORT, KIND_REPORT, decode
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, ParameterSpec
from tests.vectors.make_updates import FILES, written
from tests.wire import independent_decoder
from tests.wire.independent_modelled import Refused

CODEC_NAMES = {number: name for name, number in WIRE_IDS.items()}
V1 = Path(__file__).parents[1] / "vectors" / "v1"
VECTORS = {name: json.loads((V1 / name).read_text()) for name in FILES}
UPDATES = VECTORS["updates.json"] + VECTORS["sampled.json"] + VECTORS["keyboards.json"]
HOSTILE_UPDATES = [vector for name in ("updates", "sampled", "keyboards") for vector in VECTORS[f"hostile_{name}.json"]]
TRANSFERS, HOSTILE_TRANSFERS = VECTORS["transfers.json"], VECTORS["hostile_transfers.json"]
BEFORE = json.loads((V1 / "hostile.json").read_text())


def named(vector):
    return vector["name"]


def layout_of(vector):
    return ParameterLayout(tuple(ParameterSpec(name, tuple(shape)) for name, shape in vector["layout"]))


def decode_whole(vector):
    report = decode(bytes.fromhex(vector["frame"]))
    codec = codec_for(CodecChoice(name=CODEC_NAMES[report.codec], density=1.0))
    return report, codec.decode(report.payload, layout_of(vector))


@pytest.mark.skipif("ng" in zlib.ZLIB_RUNTIME_VERSION, reason="zlib-ng writes other bitmaps; any zlib reads them")
@pytest.mark.parametrize("name", FILES)
def test_the_vectors_are_made_again_byte_for_byte(name):
    assert written(FILES[name]()) == (V1 / name).read_text()


def test_every_kind_of_report_and_every_codec_but_the_first_has_golden_and_hostile_vectors():
    for vectors in (UPDATES, HOSTILE_UPDATES):
        frames = [bytes.fromhex(vector["frame"]) for vector in vectors]
        assert {frame[3] for frame in frames} == {KIND_REPORT, KIND_EVALUATED_REPORT, KIND_KEYBOARD_REPORT}
        codecs = {frame[18] for frame in frames if frame[3] == KIND_REPORT}
        assert codecs == set(WIRE_IDS.values()) - {WIRE_IDS["dense-f32"]}


@pytest.mark.parametrize("vector", UPDATES, ids=named)
def test_golden_update(vector):
    report, update = decode_whole(vector)
    assert {name: getattr(report, name) for name in vector["report"]} == vector["report"]
    assert report.layout == layout_of(vector).fingerprint
    for found, name in ((report.evaluation, "evaluation"), (report.keyboard, "keyboard")):
        assert (None if found is None else asdict(found)) == vector.get(name)
    assert update.indices.tolist() == vector["indices"]
    assert update.values.astype(">f4").tobytes().hex() == vector["values"]


@pytest.mark.parametrize("vector", UPDATES, ids=named)
def test_the_independent_decoder_reads_the_same_update(vector):
    got = independent_decoder.decode_report(bytes.fromhex(vector["frame"]), vector["layout"])
    assert {name: got[name] for name in vector["report"]} == vector["report"]
    assert (got["evaluation"], got["keyboard"]) == (vector.get("evaluation"), vector.get("keyboard"))
    assert got["indices"] == vector["indices"]
    assert struct.pack(f">{len(got['values'])}f", *got["values"]).hex() == vector["values"]


def test_the_example_of_the_page_is_a_golden_vector():
    page = (V1.parents[2] / "docs" / "wire-format.md").read_text()
    (example,) = re.findall(r"^05000000 [0-9a-f ]+$", page, re.MULTILINE)
    (vector,) = [vector for vector in UPDATES if vector["name"] == "topk-4-one-row"]
    assert bytes.fromhex(example) == bytes.fromhex(vector["frame"])[48:-4]
    for value in np.frombuffer(bytes.fromhex(vector["values"]), ">f4").tolist():
        assert f"{value:.7f}".replace("-", "\N{MINUS SIGN}") in page


def base_of(vector):
    """The same for us, and for the independent decoder."""
    if vector["base"] is None:
        return None, None
    values = np.frombuffer(bytes.fromhex(vector["base"]), ">f4").astype(np.float32)
    return values, values.tolist()


@pytest.mark.parametrize("vector", TRANSFERS, ids=named)
def test_golden_transfer(vector):
    transfer, (base, base_list) = bytes.fromhex(vector["transfer"]), base_of(vector)
    weights = apply_transfer(transfer, base, layout_of(vector))
    assert weights.astype(">f4").tobytes().hex() == vector["weights"]
    got = independent_decoder.apply_transfer(transfer, base_list, vector["layout"])
    assert struct.pack(f">{len(got)}f", *got).hex() == vector["weights"]


@pytest.mark.parametrize("vector", HOSTILE_UPDATES, ids=named)
def test_hostile_update_is_refused_with_its_code(vector):
    with pytest.raises(RemoteProtocolError) as caught:
        decode_whole(vector)
    assert caught.value.code == vector["code"]


@pytest.mark.parametrize("vector", HOSTILE_UPDATES, ids=named)
def test_the_independent_decoder_refuses_it_too(vector):
    with pytest.raises(Refused):
        independent_decoder.decode_report(bytes.fromhex(vector["frame"]), vector["layout"])


@pytest.mark.parametrize("vector", HOSTILE_TRANSFERS, ids=named)
def test_hostile_transfer_is_refused_with_its_code(vector):
    transfer, (base, base_list) = bytes.fromhex(vector["transfer"]), base_of(vector)
    with pytest.raises(RemoteProtocolError) as caught:
        apply_transfer(transfer, base, layout_of(vector))
    assert caught.value.code == vector["code"]
    with pytest.raises(Refused):
        independent_decoder.apply_transfer(transfer, base_list, vector["layout"])


# Of the report header the independent decoder reads the numbers only; their ranges are the coordinator's matter.
@pytest.mark.parametrize("vector", [frame for frame in BEFORE["frames"] if frame["code"] != "report-header"], ids=named)
def test_the_independent_decoder_refuses_the_first_hostile_frames(vector):
    with pytest.raises(Refused):
        independent_decoder.decode_report(bytes.fromhex(vector["frame"]), BEFORE["layout"])
