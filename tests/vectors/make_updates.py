"""Writes the golden vectors of the update codecs: update_cases.json and masks.json in v1.

Kept to show how they were made. No test runs it and nobody needs to: vectors are never edited, and a change of the
format gets a version and a folder of its own. ``python -m tests.vectors.make_updates FOLDER`` writes them elsewhere.
"""

import json
import sys
from pathlib import Path

import numpy as np

from wire.codec import codec_for
from wire.codec.masks import mask_to_bytes
from wire.codec.quantize import logarithmic_grid, quantize, uniform_grid
from wire.codec.sparsify import top_k
from wire.codec.topk import FORM_BITMAP, FORM_MODELLED, encode_levels
from wire.frame import Report, encode_report
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout, ParameterSpec

LARGEST = float(np.finfo(np.float32).max)


def layout_of(*shapes):
    return ParameterLayout(tuple(ParameterSpec(f"t{i}", shape) for i, shape in enumerate(shapes)))


MIXED = layout_of((12, 5), (5, 9), (9,), (2, 3, 4))
TINY = layout_of((40, 8), (8, 24), (8, 24), (24,), (8, 8))
ODD = layout_of((), (1, 17), (13, 1), (1,), (1, 1), (7, 2, 3))
EMPTY = layout_of()
WIDE = layout_of((150, 40), (6000,))


def spread(layout, seed, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(layout.size) * scale).astype(np.float32)


def only(layout, indices, values=None):
    vector = np.zeros(layout.size, np.float32)
    indices = np.array(indices)
    vector[indices] = np.resize([1.0, -0.25, 0.5, -3.0, 0.125], indices.size) if values is None else values
    return vector


def crowded(layout, seed):
    """Large in a few rows of the first tensor, as a real update is."""
    vector, width = spread(layout, seed, 0.01), layout.tensors[0].shape[1]
    for row in (2, 3, 11):
        vector[row * width : (row + 1) * width] *= 100
    return vector


# --- updates ---

# name, layout, update, k, form (None: whichever is shorter)
TOPK = [
    ("nothing", MIXED, spread(MIXED, 1), 0, None),
    ("no-parameters", EMPTY, spread(EMPTY, 1), 0, None),
    ("one", MIXED, spread(MIXED, 2), 1, None),
    ("a-tenth", MIXED, spread(MIXED, 3), 14, FORM_MODELLED),
    ("half", MIXED, spread(MIXED, 4), 69, FORM_BITMAP),
    ("everything", MIXED, spread(MIXED, 5), MIXED.size, None),
    ("everything-alike", TINY, np.full(TINY.size, -0.5, np.float32), TINY.size, FORM_MODELLED),
    ("one-row", MIXED, only(MIXED, range(15, 20)), 5, FORM_MODELLED),
    ("one-column", MIXED, only(MIXED, range(64, 105, 9)), 5, FORM_MODELLED),
    (
        "one-in-each-row",
        WIDE,
        only(WIDE, 40 * np.arange(150) + np.random.default_rng(16).integers(0, 40, 150)),
        150,
        FORM_MODELLED,
    ),
    ("zeros", TINY, np.zeros(TINY.size, np.float32), 9, FORM_MODELLED),
    ("some-zeros-among-them", TINY, only(TINY, [5, 90, 400]), 60, None),
    ("crowded-rows", TINY, crowded(TINY, 6), 60, FORM_MODELLED),
    ("odd-shapes", ODD, spread(ODD, 7), 30, None),
    ("odd-shapes-everything", ODD, spread(ODD, 8), ODD.size, None),
    ("smallest-floats", TINY, spread(TINY, 9, 1e-44), 200, None),
    ("largest-floats", TINY, np.sign(spread(TINY, 10)) * np.float32(LARGEST), 50, None),
    ("from-smallest-to-largest", MIXED, only(MIXED, [3, 44, 71], [1e-45, -1.0, LARGEST]), 3, None),
    ("many-lanes-and-blocks", WIDE, spread(WIDE, 11) ** 3, 1500, FORM_MODELLED),
    ("more-signs-than-filler", WIDE, spread(WIDE, 12), 79, FORM_MODELLED),
]
MASKS = [
    ("nothing", MIXED, []),
    ("no-parameters", EMPTY, []),
    ("everything", MIXED, range(MIXED.size)),
    ("every-seventh", TINY, range(0, TINY.size, 7)),
    ("one-row", MIXED, range(15, 20)),
    ("one-column", MIXED, range(64, 105, 9)),
    ("odd-shapes", ODD, range(3, ODD.size, 2)),
    ("several-lanes", WIDE, top_k(spread(WIDE, 14), 1600).indices),
]
HALVES = only(ODD, range(8), [1.0, -0.0, 6e-8, -6.1e-5, 65504.0, -65504.0, 1 / 3, 1e-9])


def report_of(wire_id, layout, payload, number=1):
    return Report(
        number, 1 + number % 3, wire_id, layout.fingerprint, number, 100 + number, 5 * number, 4.5, 0.25, payload
    )


def topk_payload(bits, layout, update, k, form):
    sparse = top_k(update, k)
    grid = uniform_grid(sparse.values, 8) if bits == 8 else logarithmic_grid(sparse.values, 4)
    levels = quantize(sparse.values, grid, np.random.default_rng(k) if bits == 8 else None)
    payload = encode_levels(sparse.indices, levels, grid, layout)
    if form is not None and payload[12 if bits == 8 else 14] != form:
        raise AssertionError(form)  # the case does not show what its name says
    return payload


def update_vectors():
    for bits, wire_id in ((8, 4), (4, 5)):
        for name, layout, update, k, form in TOPK:
            yield f"topk-{bits}-{name}", layout, wire_id, topk_payload(bits, layout, update, k, form), None
    yield "dense-f16", ODD, 3, HALVES.astype("<f2").tobytes(), None
    for bits, wire_id in ((8, 6), (4, 7)):
        for name, layout, chosen in MASKS:
            mask = np.array(chosen, np.int64)
            codec = codec_for(CodecChoice(name=f"mask-{bits}"), mask)
            payload = codec.encode(spread(layout, 15, 0.1), layout, np.random.default_rng(mask.size))
            yield f"mask-{bits}-{name}", layout, wire_id, payload, mask


def updates():
    for number, (name, layout, wire_id, payload, mask) in enumerate(update_vectors(), 1):
        report = report_of(wire_id, layout, payload, number)
        codec = codec_for(CodecChoice(name=NAME_OF[wire_id]), mask)
        sparse = codec.decode(payload, layout)
        header = {f: getattr(report, f) for f in report.__slots__ if f not in {"payload", "layout"}}
        yield {
            "name": name,
            "layout": shapes(layout),
            "frame": encode_report(report).hex(),
            "report": header,
            "mask": [] if mask is None else mask.tolist(),
            "indices": sparse.indices.tolist(),
            "values": sparse.values.astype(">f4").tobytes().hex(),
        }


NAME_OF = {3: "dense-f16", 4: "topk-8", 5: "topk-4", 6: "mask-8", 7: "mask-4"}


def shapes(layout):
    return [[spec.name, list(spec.shape)] for spec in layout.tensors]


def masks():
    for name, layout, chosen in MASKS:
        mask = np.array(chosen, np.int64)
        yield {
            "name": name,
            "layout": shapes(layout),
            "artifact": mask_to_bytes(mask, layout).hex(),
            "indices": mask.tolist(),
        }


def write(path, vectors):
    """One vector a line."""
    path.write_text("[\n" + ",\n".join(json.dumps(vector) for vector in vectors) + "\n]\n")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write(folder / "update_cases.json", updates())
    write(folder / "masks.json", masks())
