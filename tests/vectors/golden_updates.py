"""Golden vectors of codecs 3 to 6 and transfers: every corner that an honest encoder can get into."""

from dataclasses import asdict

import msgspec
import numpy as np

from nightjar.wire.codec import codec_for
from nightjar.wire.codec.quantize import Logarithmic, logarithmic_grid, quantize, uniform_grid
from nightjar.wire.codec.sampled import ONES, sampled_levels
from nightjar.wire.codec.sparsify import top_k
from nightjar.wire.codec.topk import FORM_BITMAP, FORM_MODELLED, encode_levels
from nightjar.wire.codec.transfers import TOPK_4, TOPK_8, apply_transfer, exact_transfer, topk_transfer
from nightjar.wire.frame import KeyboardEvaluation, LocalEvaluation, encode_report
from nightjar.wire.messages import CodecChoice
from tests.vectors.cases import (
    EMPTY,
    MIXED,
    MODEL,
    NAME_OF,
    ODD,
    TINY,
    WIDE,
    crowded,
    floats,
    only,
    report_of,
    shapes,
    skewed,
    spread,
    structured,
)
from tests.wire.half_transfer import half_transfer

LARGEST = float(np.finfo(np.float32).max)
ONE_IN_EACH_ROW = 40 * np.arange(150) + np.random.default_rng(16).integers(0, 40, 150)
COLUMN_OF_MODEL = 480 + 30 * np.arange(12) + 4

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
    ("one-in-each-row", WIDE, only(WIDE, ONE_IN_EACH_ROW), 150, FORM_MODELLED),
    ("zeros", TINY, np.zeros(TINY.size, np.float32), 9, FORM_MODELLED),
    ("some-zeros-among-them", TINY, only(TINY, [5, 90, 400]), 60, None),
    ("crowded-rows", TINY, crowded(TINY, 6), 60, FORM_MODELLED),
    ("odd-shapes", ODD, spread(ODD, 7), 30, None),
    ("odd-shapes-everything", ODD, spread(ODD, 8), ODD.size, None),
    ("smallest-floats", TINY, spread(TINY, 9, 1e-44), 200, None),
    ("largest-floats", TINY, np.sign(spread(TINY, 10)) * np.float32(LARGEST), 50, None),
    ("from-smallest-to-largest", MIXED, only(MIXED, [3, 44, 71], [1e-45, -1.0, LARGEST]), 3, None),
    ("many-lanes-and-blocks", WIDE, skewed(WIDE, 11), 1500, FORM_MODELLED),
    ("more-signs-than-filler", WIDE, spread(WIDE, 12), 79, FORM_MODELLED),
    ("structured-two", MODEL, structured(MODEL, 20), 2, FORM_MODELLED),
    ("structured-a-twentieth", MODEL, structured(MODEL, 20), 46, FORM_MODELLED),
    ("structured-two-fifths", MODEL, structured(MODEL, 20), 361, None),
    ("alike-a-tenth", MODEL, np.full(MODEL.size, 0.25, np.float32), 91, None),
    ("one-column-and-zeros", MODEL, only(MODEL, COLUMN_OF_MODEL), 55, FORM_MODELLED),
    ("every-other", MODEL, only(MODEL, range(0, MODEL.size, 2)), 451, None),
]
HALVES = only(ODD, range(8), [1.0, -0.0, 6e-8, -6.1e-5, 65504.0, -65504.0, 1 / 3, 1e-9])
DENSE = [
    ("corners", ODD, HALVES),
    ("structured", MODEL, structured(MODEL, 20)),
    ("zeros", MODEL, np.zeros(MODEL.size, np.float32)),
    ("alike", MODEL, np.full(MODEL.size, 0.25, np.float32)),
    ("no-parameters", EMPTY, spread(EMPTY, 1)),
]


HEADER = ("round", "attempt", "codec", "version", "num_examples", "steps", "loss", "seconds")


def topk_payload(bits, layout, update, k, form):
    sparse = top_k(update, k)
    grid = uniform_grid(sparse.values, 8) if bits == 8 else logarithmic_grid(sparse.values, 4)
    levels = quantize(sparse.values, grid, np.random.default_rng(k) if bits == 8 else None)
    payload = encode_levels(sparse.indices, levels, grid, layout)
    if form is not None and payload[12 if bits == 8 else 14] != form:
        raise AssertionError(form)  # the case does not show what its name says
    return payload


def payloads():
    """Name, layout, wire id and payload of each update."""
    for bits, wire_id in ((8, 4), (4, 5)):
        for name, layout, update, k, form in TOPK:
            yield f"topk-{bits}-{name}", layout, wire_id, topk_payload(bits, layout, update, k, form)
    for name, layout, update in DENSE:
        yield f"dense-f16-{name}", layout, 3, update.astype("<f2").tobytes()


def updates():
    for number, (name, layout, wire_id, payload) in enumerate(payloads(), 1):
        yield golden(number, name, layout, wire_id, payload)
    yield evaluated()


def golden(number, name, layout, wire_id, payload):
    report = report_of(wire_id, layout, payload, number)
    sparse = codec_for(CodecChoice(name=NAME_OF[wire_id], density=1.0)).decode(payload, layout)
    return {
        "name": name,
        "layout": shapes(layout),
        "frame": encode_report(report).hex(),
        "report": {name: getattr(report, name) for name in HEADER},
        "indices": sparse.indices.tolist(),
        "values": floats(sparse.values),
    }


# name, layout, update, k, form (None: whichever is shorter)
SAMPLED = [
    ("no-parameters", EMPTY, spread(EMPTY, 1), 0, None),
    ("zeros", TINY, np.zeros(TINY.size, np.float32), 9, None),
    ("one", MIXED, spread(MIXED, 2), 1, None),
    ("fewer-than-k", MIXED, only(MIXED, range(15, 20)), 9, FORM_MODELLED),
    ("alike", MODEL, np.full(MODEL.size, -0.25, np.float32), 91, None),
    ("a-tenth", TINY, skewed(TINY, 31), 81, FORM_MODELLED),
    ("half", MIXED, spread(MIXED, 4), 69, None),
    ("everything", MIXED, spread(MIXED, 5), MIXED.size, None),
    ("crowded-rows", TINY, crowded(TINY, 6), 60, FORM_MODELLED),
    ("far-above-the-others", TINY, only(TINY, [5, 90, 400], [1e-3, -1.0, 1e-3]), 3, None),
    ("odd-shapes", ODD, spread(ODD, 7), 30, None),
    ("smallest-floats", TINY, spread(TINY, 9, 1e-44), 200, None),
    ("largest-floats", TINY, only(TINY, [0, 100, 200], [LARGEST, -LARGEST, LARGEST]), 3, None),
    ("many-lanes-and-blocks", WIDE, skewed(WIDE, 11), 1500, FORM_MODELLED),
    ("structured-a-twentieth", MODEL, structured(MODEL, 20), 46, FORM_MODELLED),
    ("structured-two-fifths", MODEL, structured(MODEL, 20), 361, None),
    ("every-other", MODEL, only(MODEL, range(0, MODEL.size, 2)), 451, FORM_BITMAP),
]


def sampled_payload(layout, update, k, form):
    drawn, levels, grid = sampled_levels(update, k, np.random.default_rng(k))
    payload = encode_levels(drawn.indices, levels, grid, layout, ONES)
    if form is not None and payload[14] != form:
        raise AssertionError(form)  # the case does not show what its name says
    return payload


def sampled():
    for number, (name, layout, update, k, form) in enumerate(SAMPLED, 1):
        yield golden(number, f"sampled-4-{name}", layout, 6, sampled_payload(layout, update, k, form))
    # A writer that draws in another way may send zeros and every level.
    levels = np.resize([0, 1, -7, 2, -1, 1, 6, 1], 60)
    other = encode_levels(np.arange(3, 243, 4), levels, Logarithmic(0.25, 700, 7), TINY, ONES)
    yield golden(len(SAMPLED) + 1, "sampled-4-every-level", TINY, 6, other)


EVALUATION = LocalEvaluation(40, 5, 11, 7, 12, 5.5, 5.25)


KEYBOARD = KeyboardEvaluation(1500, 640, 7, 655)


def evaluated(name="topk-4-evaluated", **more):
    """A report with a local evaluation before it."""
    payload = topk_payload(4, MIXED, only(MIXED, range(15, 20)), 5, FORM_MODELLED)
    report = msgspec.structs.replace(report_of(5, MIXED, payload), evaluation=EVALUATION, **more)
    sparse = codec_for(CodecChoice(name="topk-4", density=1.0)).decode(payload, MIXED)
    return {
        "name": name,
        "layout": shapes(MIXED),
        "frame": encode_report(report).hex(),
        "report": {name: getattr(report, name) for name in HEADER},
        "evaluation": asdict(EVALUATION),
        **{name: asdict(value) for name, value in more.items()},
        "indices": sparse.indices.tolist(),
        "values": floats(sparse.values),
    }


def keyboards():
    """Reports with a keyboard evaluation beside the local one."""
    yield evaluated("keyboard", keyboard=KEYBOARD)
    yield evaluated("keyboard-of-the-announced-version", keyboard=KeyboardEvaluation(1, 0, 1, 0))
    yield evaluated("keyboard-largest-numbers", keyboard=KeyboardEvaluation(*[2**32 - 1] * 4))


def halves(layout, seed):
    return spread(layout, seed).astype(np.float16).astype(np.float32)


def moved(layout, share, scale):
    """Weights of which a share moved a little."""
    weights = spread(layout, 22)
    chosen = np.random.default_rng(23).permutation(layout.size)[: round(share * layout.size)]
    weights[chosen] += spread(layout, 24, scale)[chosen]
    return weights


ZEROS = np.zeros(MIXED.size, np.float32)
# name, layout, base, weights
EXACT = [
    ("nothing-changed", MIXED, spread(MIXED, 22), spread(MIXED, 22)),
    ("no-parameters", EMPTY, spread(EMPTY, 1), spread(EMPTY, 1)),
    ("a-few", MODEL, spread(MODEL, 22), moved(MODEL, 0.05, 1e-3)),
    ("most", MODEL, spread(MODEL, 22), moved(MODEL, 0.8, 1e-6)),
    ("other-weights", MIXED, spread(MIXED, 25), spread(MIXED, 26)),
    ("from-half-to-half", TINY, halves(TINY, 27), halves(TINY, 28)),
    ("zeros-of-both-signs", MIXED, ZEROS, np.resize(np.array([0.0, -0.0], np.float32), MIXED.size)),
    ("back-from-minus-zero", MIXED, -ZEROS, np.resize(np.array([0.0, -0.0, 1e-45, -1e-45], np.float32), MIXED.size)),
    (
        "from-end-to-end",
        MIXED,
        only(MIXED, [0, 1, 2], [LARGEST, -LARGEST, 1]),
        only(MIXED, [0, 1], [-LARGEST, LARGEST]),
    ),
    ("smallest-floats", MIXED, spread(MIXED, 9, 1e-44), spread(MIXED, 29, 1e-44)),
]


def transfer_files():
    """Name, layout, base and transfer."""
    yield "half", TINY, None, half_transfer(halves(TINY, 27), TINY)
    yield "half-corners", ODD, None, half_transfer(HALVES.astype(np.float16).astype(np.float32), ODD)
    for name, layout, base, weights in EXACT:
        yield f"exact-{name}", layout, base, exact_transfer(base, weights, layout)
    for bits, form in ((8, TOPK_8), (4, TOPK_4)):
        for name, update in (("structured", structured(MODEL, 20)), ("one-column", only(MODEL, COLUMN_OF_MODEL))):
            payload = topk_payload(bits, MODEL, update, 46, None)
            yield f"topk-{bits}-{name}", MODEL, spread(MODEL, 22), topk_transfer(form, payload, MODEL)


def transfers():
    for name, layout, base, transfer in transfer_files():
        yield {
            "name": name,
            "layout": shapes(layout),
            "base": floats(base),
            "transfer": transfer.hex(),
            "weights": floats(apply_transfer(transfer, base, layout)),
        }
