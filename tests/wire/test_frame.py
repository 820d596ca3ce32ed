import dataclasses
import math
import random
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.frame import (
    MAX_PUBLISH_BYTES,
    Chunk,
    KeyboardEvaluation,
    LocalEvaluation,
    Report,
    decode,
    encode_report,
    join,
    publishes,
)

REPORT = Report(7, 1, 2, "0123456789abcdef", 3, 250, 12, 4.5, 1.25, b"payload")


def test_a_report_survives_the_wire():
    assert decode(encode_report(REPORT)) == REPORT


def test_a_small_report_is_one_publish():
    frame = encode_report(REPORT)
    assert publishes(frame, 7, 1) == [frame]


def test_a_large_report_goes_in_chunks_that_join_in_any_order():
    frame = encode_report(Report(7, 1, 1, "00" * 8, 3, 1, 1, 0.0, 0.0, random.Random(0).randbytes(500_000)))
    payloads = publishes(frame, 7, 1)
    assert len(payloads) == 5
    assert max(map(len, payloads)) <= MAX_PUBLISH_BYTES
    random.Random(1).shuffle(payloads)
    chunks = {c.index: c for c in (decode(p) for p in payloads) if isinstance(c, Chunk)}
    assert join(chunks) == frame


def test_joining_with_a_missing_or_foreign_chunk_is_refused():
    frame = encode_report(Report(7, 1, 1, "00" * 8, 3, 1, 1, 0.0, 0.0, bytes(300_000)))
    chunks = {c.index: c for c in map(decode, publishes(frame, 7, 1)) if isinstance(c, Chunk)}
    foreign = {c.index: c for c in map(decode, publishes(frame, 8, 1)) if isinstance(c, Chunk)}
    with pytest.raises(RemoteProtocolError, match="expected chunks 0 to 2"):
        join({0: chunks[0], 2: chunks[2]})
    with pytest.raises(RemoteProtocolError, match="of 2 report"):
        join({**chunks, 1: foreign[1]})
    with pytest.raises(RemoteProtocolError):
        join({})


def test_every_truncation_and_every_flipped_byte_is_a_protocol_error():
    frame = encode_report(REPORT)
    for length in range(len(frame)):
        with pytest.raises(RemoteProtocolError):
            decode(frame[:length])
    for at in range(len(frame)):
        with pytest.raises(RemoteProtocolError):
            decode(frame[:at] + bytes([frame[at] ^ 0x40]) + frame[at + 1 :])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_a_protocol_error(data):
    with pytest.raises(RemoteProtocolError):
        decode(data)


@pytest.mark.parametrize(
    "field",
    [{"round": -1}, {"attempt": 70_000}, {"layout": "xyz"}, {"layout": "00"}, {"num_examples": 2**32}],
)
def test_a_field_that_does_not_fit_is_refused_by_the_sender(field):
    values = {name: getattr(REPORT, name) for name in REPORT.__slots__} | field
    with pytest.raises(LocalProtocolError):
        encode_report(Report(**values))


LOOKED = LocalEvaluation(40, 5, 11, 7, 12, 5.5, 5.25)


def test_a_local_evaluation_travels_with_its_report():
    report = msgspec.structs.replace(REPORT, evaluation=LOOKED)
    assert decode(encode_report(report)) == report
    assert len(encode_report(report)) == len(encode_report(REPORT)) + 28


@pytest.mark.parametrize("wrong", [{"top1_after": 13}, {"top3_before": 41}, {"loss_after": math.nan}])
def test_an_evaluation_that_cannot_be_is_refused(wrong):
    report = msgspec.structs.replace(REPORT, evaluation=dataclasses.replace(LOOKED, **wrong))
    with pytest.raises(RemoteProtocolError) as fault:
        decode(encode_report(report))
    assert fault.value.code == "report-evaluation"


KEYBOARD = KeyboardEvaluation(1500, 640, 7, 655)


def test_a_keyboard_evaluation_travels_beside_the_local_one():
    evaluated = msgspec.structs.replace(REPORT, evaluation=LOOKED)
    report = msgspec.structs.replace(evaluated, keyboard=KEYBOARD)
    assert decode(encode_report(report)) == report
    assert len(encode_report(report)) == len(encode_report(evaluated)) + 16


def test_a_keyboard_evaluation_without_a_local_one_is_refused_by_the_sender():
    with pytest.raises(LocalProtocolError, match="has an evaluation, too"):
        encode_report(msgspec.structs.replace(REPORT, keyboard=KEYBOARD))


@pytest.mark.parametrize("wrong", [{"saved": 1501}, {"saved_announced": 1501}, {"letters": 0}])
def test_a_keyboard_evaluation_that_cannot_be_is_refused(wrong):
    lie = dataclasses.replace(KEYBOARD, **wrong)
    with pytest.raises(RemoteProtocolError) as fault:
        decode(encode_report(msgspec.structs.replace(REPORT, evaluation=LOOKED, keyboard=lie)))
    assert fault.value.code == "report-evaluation"


@pytest.mark.parametrize(("kept", "keyboard"), [*((n, None) for n in range(68)), *((n, KEYBOARD) for n in range(84))])
def test_a_short_body_of_an_evaluated_report_is_refused(kept, keyboard):
    data = bytearray(encode_report(msgspec.structs.replace(REPORT, evaluation=LOOKED, keyboard=keyboard))[: 8 + kept])
    data[4:8] = kept.to_bytes(4, "little")
    data += zlib.crc32(data).to_bytes(4, "little")
    with pytest.raises(RemoteProtocolError):
        decode(bytes(data))
