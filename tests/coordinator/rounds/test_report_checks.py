import msgspec
import numpy as np
import pytest

from nightjar.coordinator.rounds.report_checks import Accepted, Asked, Invalid, check_report, max_report_bytes
from nightjar.wire import frame
from nightjar.wire.codec import NAMES, codec_for
from nightjar.wire.messages import CodecChoice
from tests.coordinator.model_folder import LAYOUT

DENSE = codec_for(CodecChoice(name="dense-f32"))
ASKED = Asked(DENSE, LAYOUT, version=3)


def report(delta=None, **changes) -> frame.Report:
    delta = np.full(LAYOUT.size, 0.5, np.float32) if delta is None else delta
    sound = frame.Report(
        round=1,
        attempt=1,
        codec=DENSE.wire_id,
        layout=LAYOUT.fingerprint,
        version=3,
        num_examples=5,
        steps=1,
        loss=1.0,
        seconds=1.0,
        payload=np.asarray(delta, "<f4").tobytes(),
    )
    return msgspec.structs.replace(sound, **changes)


def test_a_sound_report_is_accepted_with_its_norm():
    found = check_report(report(), ASKED)
    assert isinstance(found, Accepted)
    assert found.norm == pytest.approx(0.5 * LAYOUT.size**0.5)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"codec": 2}, "codec"),
        ({"codec": 999}, "codec"),
        ({"layout": "0" * 16}, "layout"),
        ({"version": 2}, "version"),
        ({"num_examples": 0}, "examples"),
        ({"payload": b""}, "payload"),
        ({"payload": b"\x00" * (4 * LAYOUT.size + 4)}, "payload"),
        ({"delta": np.full(LAYOUT.size, np.nan, np.float32)}, "not-finite"),
        ({"delta": np.full(LAYOUT.size, np.inf, np.float32)}, "not-finite"),
    ],
)
def test_each_fault_has_its_code(changes, code):
    found = check_report(report(**changes), ASKED)
    assert isinstance(found, Invalid)
    assert found.code == code
    assert found.detail


@pytest.mark.parametrize("name", NAMES)
def test_no_codec_makes_a_report_above_the_size_limit(name):
    codec = codec_for(CodecChoice(name=name, density=1.0))
    delta = np.random.default_rng(1).normal(size=LAYOUT.size).astype(np.float32)
    payload = codec.encode(delta, LAYOUT, np.random.default_rng(1))
    whole = frame.encode_report(report(codec=codec.wire_id, payload=payload))
    assert len(whole) <= max_report_bytes(LAYOUT)
