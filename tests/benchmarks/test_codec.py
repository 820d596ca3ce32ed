"""The codec's benchmark on small updates: every figure is there."""

import math

import numpy as np
import pytest
from rich.console import Console

from nightjar.benchmarks import codec
from nightjar.simulation.collect_updates import Updates
from nightjar.wire.parameters import ParameterLayout, ParameterSpec

LAYOUT = ParameterLayout((ParameterSpec("embedding", (40, 25)), ParameterSpec("bias", (60,))))
FIGURES = {
    *("codec", "density", "report_bytes", "position_bits", "value_bits", "model_bits", "uniform_bits", "zlib_bytes"),
    *("lzma_bytes", "energy_kept", "encode_ms", "decode_ms", "ratio"),
}


@pytest.fixture
def updates():
    generator = np.random.default_rng(3)
    deltas = [generator.standard_t(2, LAYOUT.size).astype(np.float32) for _ in range(8)]
    return Updates("none", "none", 3, LAYOUT, deltas)


@pytest.mark.parametrize("names", [("topk-4", "sampled-4"), ("topk-8",)])
def test_every_codec_has_every_figure_at_every_density(updates, names, monkeypatch):
    monkeypatch.setattr(codec, "REPORTS", 4)
    found = codec.measure(updates, names, Console(stderr=True))
    asked = [(name, density) for name in names for density in (0.001, 0.01, 0.05)]
    assert [(row["codec"], row["density"]) for row in found["densities"]] == asked
    for row in found["densities"]:
        assert set(row) == FIGURES
        assert all(math.isfinite(value) and value > 0 for name, value in row.items() if name != "codec")
