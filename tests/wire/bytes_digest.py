"""One sha256 over what every codec writes for fixed updates: the same on every machine and with every numpy.

``python -m tests.wire.bytes_digest`` prints it; it needs numpy, msgspec and ``wire``, nothing else. The updates are
made from integers, so that only the codecs are compared. None is coded in the bitmap form, whose bytes are zlib's.
"""

import hashlib

import numpy as np

from nightjar.wire.codec import NAMES, codec_for
from nightjar.wire.codec.quantize import logarithmic_grid, quantize, uniform_grid
from nightjar.wire.codec.topk import encode_levels
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, ParameterSpec

EXPECTED = "b1f95d3a946ca4212e74136636d7a42eec6cba2b192f55c827f4fbe5642c578b"


def lstm(words, embedding, hidden):
    gates = 3 * hidden
    shapes = [(words, embedding), (embedding, gates), (embedding, gates), (gates,), (hidden, embedding)]
    return ParameterLayout(tuple(ParameterSpec(f"t{i}", shape) for i, shape in enumerate(shapes)))


LAYOUTS = {
    "gboard": lstm(10_000, 96, 670),
    "tiny": lstm(300, 64, 128),
    "odd": ParameterLayout(
        (ParameterSpec("cube", (3, 5, 70)), ParameterSpec("row", (1, 900)), ParameterSpec("column", (700, 1)))
    ),
}


def update(layout, seed):
    """Heavy-tailed, and larger in a few rows of each tensor, as real updates are."""
    rng = np.random.default_rng(seed)
    parts = []
    for spec in layout.tensors:
        rows = spec.shape[0]
        factors = rng.integers(-300, 301, (3, rows, spec.size // rows), dtype=np.int64)
        loud = np.where(rng.integers(0, 20, (rows, 1), dtype=np.int64) == 0, 64, 1)
        parts.append((factors.prod(axis=0) * loud).ravel())
    return np.concatenate(parts).astype(np.float32) / np.float32(1 << 30)


def topk4(delta, layout):
    return codec_for(CodecChoice(density=0.3)).encode(delta, layout, np.random.default_rng(0))


def pieces():
    """Name and bytes of everything that is compared."""
    for name, layout in LAYOUTS.items():
        delta = update(layout, len(name))
        for codec_name in NAMES:
            for density in (0.001, 0.01, 0.05) if not codec_name.startswith("dense") else (1,):
                codec = codec_for(CodecChoice(name=codec_name, density=density))
                encoded = codec.write(delta, layout, np.random.default_rng(2))
                yield f"{codec_name} of {density} of {name}", encoded.payload()
                yield f"values of {codec_name} of {density} of {name}", encoded.sent.values.astype("<f4").tobytes()
    # Floats below 2**-126 are the ones that processors disagree about.
    yield "topk-4 of the smallest floats", topk4(update(LAYOUTS["odd"], 3) * np.float32(2.0**-143), LAYOUTS["odd"])
    values = update(LAYOUTS["odd"], 9)
    for bits in range(2, 9):
        for grid in (uniform_grid(values, bits), *(logarithmic_grid(values, bits, reach=r) for r in (False, True))):
            yield f"{grid}", grid.magnitudes().astype("<f8").tobytes()
            for rng in (None, np.random.default_rng(bits)):
                yield f"levels of {grid}", quantize(values, grid, rng).astype("<i8").tobytes()
    ones = np.arange(0, 1050, 7)
    yield "all levels alike", encode_levels(ones, np.ones_like(ones), logarithmic_grid(values, 4), LAYOUTS["odd"])


def digest():
    """Sha256 of all pieces, each after its name and length."""
    whole = hashlib.sha256()
    for name, data in pieces():
        if name.startswith(("topk", "sampled")) and data[12 if name.startswith("topk-8") else 14] != 0:
            raise AssertionError(name)  # pick another update
        whole.update(f"{name}: {len(data)}\n".encode())
        whole.update(data)
    return whole.hexdigest()


if __name__ == "__main__":
    print(np.__version__, digest())
