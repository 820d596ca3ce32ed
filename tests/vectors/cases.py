"""Layouts and updates that the golden vectors are made of, and how a vector is written down."""

import json

import numpy as np

from nightjar.wire.frame import Report
from nightjar.wire.parameters import ParameterLayout, ParameterSpec


def layout_of(*shapes):
    return ParameterLayout(tuple(ParameterSpec(f"t{i}", shape) for i, shape in enumerate(shapes)))


MIXED = layout_of((12, 5), (5, 9), (9,), (2, 3, 4))
TINY = layout_of((40, 8), (8, 24), (8, 24), (24,), (8, 8))
ODD = layout_of((), (1, 17), (13, 1), (1,), (1, 1), (7, 2, 3))
EMPTY = layout_of()
WIDE = layout_of((150, 40), (6000,))
MODEL = layout_of((40, 12), (12, 30), (30,), (2, 3, 4), (1, 7))

NAME_OF = {3: "dense-f16", 4: "topk-8", 5: "topk-4", 6: "sampled-4"}


def spread(layout, seed, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(layout.size) * scale).astype(np.float32)


def skewed(layout, seed):
    """Third powers: a few values far above the others."""
    values = spread(layout, seed)
    return values * values * values


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


def structured(layout, seed):
    """Every row and every column of every tensor has a loudness of its own."""
    rng, parts = np.random.default_rng(seed), []
    for spec in layout.tensors:
        rows, columns = (spec.shape[0], spec.size // spec.shape[0]) if len(spec.shape) > 1 else (1, spec.size)
        loud = rng.integers(1, 9, (rows, 1)) ** 2 * rng.integers(1, 5, (1, columns))
        parts.append((rng.integers(-100, 101, (rows, columns)) * loud).ravel())
    return np.concatenate(parts).astype(np.float32) / np.float32(1 << 14)


def report_of(wire_id, layout, payload, number=1):
    return Report(
        number, 1 + number % 3, wire_id, layout.fingerprint, number, 100 + number, 5 * number, 4.5, 0.25, payload
    )


def shapes(layout):
    return [[spec.name, list(spec.shape)] for spec in layout.tensors]


def floats(values):
    """Binary32 numbers as hex, the first digit the sign's; None stays None."""
    return None if values is None else values.astype(">f4").tobytes().hex()


def written(vectors):
    """A file of vectors: JSON, one vector a line."""
    return "[\n" + ",\n".join(json.dumps(vector) for vector in vectors) + "\n]\n"
