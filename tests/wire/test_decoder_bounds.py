"""What bytes can cost whoever reads them: a short lie next to nothing, and the truth at most so much a parameter.

The measure is tracemalloc, which sees numpy's arrays; all parameters in one message (k = n) are the worst legal case.
"""

import struct
import subprocess
import sys
import tracemalloc
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nightjar.models.configurations import configuration
from nightjar.wire import frame, messages
from nightjar.wire.codec import NAMES, codec_for, modelled
from nightjar.wire.codec.transfers import apply_transfer, exact_transfer
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, ParameterSpec

GBOARD, TINY = configuration("gboard").layout(10_000), configuration("tiny").layout(2_000)
LARGEST = ParameterLayout((ParameterSpec("m", (1 << 14, 1 << 14)),))
"""The largest layout that there is: what a lie could claim is largest here."""
A_FEW_BYTES = 1_000_000
"""Of memory: what a refusal may need beside the bytes that came."""
BYTES_A_PARAMETER = 130
"""The worst legal case, all parameters in one report: about fifteen numbers of eight bytes at the same time."""


def peak_bytes(action):
    """What the action held at most, beside what there was before; a refusal is an ordinary end."""
    tracemalloc.start()
    try:
        action()
    except RemoteProtocolError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def decoders(layout):
    """Every function that reads a payload or an artifact, with what a lie for it begins with."""
    base = np.zeros(layout.size, np.float32)
    for name in NAMES:
        codec = codec_for(CodecChoice(name=name))
        yield name, lambda data, codec=codec: codec.decode(data, layout)
        yield f"norm of {name}", lambda data, codec=codec: codec.read(data, layout).norm
    yield "transfer", lambda data: apply_transfer(data, base, layout)


def lies(layout):
    """Short inputs that claim as much as can be claimed, beside noise."""
    fingerprint = bytes.fromhex(layout.fingerprint)
    counts = [struct.pack("<I", count) for count in (0, 1, layout.size, layout.size - 1, 2**31, 2**32 - 1)]
    fills = [b"", bytes(8), b"\xff" * 8, bytes(400), b"\xff" * 400, np.random.default_rng(0).bytes(400)]
    for count in counts:
        for form in (b"\0", b"\1"):
            for fill in fills:
                yield count + struct.pack("<f", 1.0) + struct.pack("<f", 1.0) + form + fill  # topk-8
                yield (
                    count + struct.pack("<fH", 1.0, 300) + struct.pack("<f", 1.0) + form + fill
                )  # topk-4 and sampled-4
        for fill in fills:
            for form in (1, 2, 3, 4):
                yield b"NJT1" + bytes([form]) + fingerprint + count + b"\0" + fill
    for size in (0, 1, 20):
        for seed in range(20):
            yield np.random.default_rng(seed).bytes(size)


@pytest.mark.parametrize("name", [name for name, _ in decoders(GBOARD)])
def test_a_short_lie_costs_next_to_nothing(name):
    decode = dict(decoders(GBOARD))[name]
    assert max(peak_bytes(lambda data=data: decode(data)) for data in lies(GBOARD)) < A_FEW_BYTES


@pytest.mark.parametrize("name", ["topk-8", "topk-4", "sampled-4"])
def test_a_short_lie_costs_next_to_nothing_for_the_largest_layout_that_there_is(name):
    codec = codec_for(CodecChoice(name=name))
    assert max(peak_bytes(lambda data=data: codec.decode(data, LARGEST)) for data in lies(LARGEST)) < A_FEW_BYTES


def test_a_bitmap_bomb_is_not_unpacked_beyond_the_bitmap():
    bomb = struct.pack("<IfHfB", 1, 1.0, 300, 1.0, 1) + zlib.compress(bytes(1 << 28), 9)
    assert peak_bytes(lambda: codec_for(CodecChoice()).decode(bomb, GBOARD)) < 4 * GBOARD.size


def everything(codec_name):
    """The shortest payload that names every parameter: one value throughout, so that nearly nothing is left to say."""
    codec = codec_for(CodecChoice(name=codec_name, density=1.0))
    return codec, codec.encode(np.ones(TINY.size, np.float32), TINY, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["topk-8", "topk-4", "sampled-4"])
def test_peak_of_k_equal_to_n_is_in_proportion_to_the_model(name):
    codec, payload = everything(name)
    assert peak_bytes(lambda: codec.decode(payload, TINY)) < BYTES_A_PARAMETER * TINY.size


def test_peak_of_a_transfer_that_changes_everything_is_in_proportion_to_the_model():
    base = np.zeros(TINY.size, np.float32)
    transfer = exact_transfer(base, np.random.default_rng(0).standard_normal(base.size).astype(np.float32), TINY)
    assert peak_bytes(lambda: apply_transfer(transfer, base, TINY)) < BYTES_A_PARAMETER * TINY.size


def test_a_model_body_with_claims_that_need_no_words_ends_where_the_bytes_end():
    """Learned statistics make sure symbols cheap: a few bytes can go a long way, but never beyond k."""
    for count in (TINY.size, 10_000):
        honest = modelled.encode(np.arange(count), np.ones(count, np.int64), TINY, 7).data
        for length in range(0, len(honest), len(honest) // 3):
            read = partial(modelled.decode, honest[:length], count, TINY, most=7)
            assert peak_bytes(read) < BYTES_A_PARAMETER * TINY.size


@pytest.mark.parametrize("name", NAMES)
def test_a_payload_of_megabytes_costs_a_few_times_its_length_at_most(name):
    codec = codec_for(CodecChoice(name=name))
    layout = ParameterLayout((ParameterSpec("m", (40, 50)),))
    for fill in (b"\0", b"\xff", b"\x55"):
        for head in (b"", struct.pack("<IfHfBI", 900, 1.0, 300, 1.0, 0, 1 << 20)):
            data = head + fill * (4 << 20)
            assert peak_bytes(lambda data=data: codec.decode(data, layout)) < 4 * len(data)


def test_chunks_are_held_to_their_own_claims():
    """A chunk that claims a report of 64 MiB costs its own bytes; only all chunks together make so large a report."""
    part = bytes(frame.CHUNK_PART_BYTES)
    count = -(-frame.MAX_REPORT_BYTES // len(part))
    body = struct.pack("<QHHHxxI", 1, 1, 0, count, frame.MAX_REPORT_BYTES) + part
    chunk = frame.decode(frame._frame(frame.KIND_CHUNK, body))
    assert isinstance(chunk, frame.Chunk)
    assert peak_bytes(lambda: frame.decode(frame._frame(frame.KIND_CHUNK, body))) < 10 * len(part)
    assert peak_bytes(lambda: frame.join({0: chunk})) < A_FEW_BYTES
    short = struct.pack("<QHHHxxI", 1, 1, 0, 65_535, 2**32 - 1) + b"x"
    assert peak_bytes(lambda: frame.decode(frame._frame(frame.KIND_CHUNK, short))) < A_FEW_BYTES


@pytest.mark.parametrize("kind", messages.TYPES)
def test_control_messages_of_the_largest_size_cost_a_few_times_that(kind):
    for piece in (b"[", b'{"a":', b"1,", b'"\\u0000'):
        data = (piece * messages.MAX_CONTROL_BYTES)[: messages.MAX_CONTROL_BYTES]
        assert peak_bytes(lambda data=data: messages.decode(kind, data)) < A_FEW_BYTES


LIMITED = """
import resource, struct, sys, time
import numpy as np
from tests.wire.test_decoder_bounds import LARGEST, NAMES, lies
from nightjar.wire import frame
from nightjar.wire.codec import codec_for
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.messages import CodecChoice

codecs = {codec.wire_id: codec for codec in (codec_for(CodecChoice(name=name)) for name in NAMES)}
frames = [
    frame.encode_report(frame.Report(1, 1, codec.wire_id, LARGEST.fingerprint, 0, 1, 1, 0.0, 0.0, payload))
    for codec in codecs.values() for payload in lies(LARGEST) if len(payload) <= 40
]
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 100_000_000,) * 2)
refused = 0
for data in frames:
    report = frame.decode(data)
    try:
        codecs[report.codec].decode(report.payload, LARGEST)
    except RemoteProtocolError:
        refused += 1
print("refused", refused, "of", len(frames))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is Linux's")
def test_no_small_frame_needs_a_tenth_of_a_gigabyte_even_for_the_largest_layout():
    """The same with a limit that the kernel enforces: with 100 MB more than it has, the process reads them all."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) > 200
