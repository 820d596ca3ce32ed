"""The codec's benchmark on small updates: every figure is there, and what it says of error feedback is true."""

import math

import numpy as np
import pytest
from rich.console import Console

from nightjar.benchmarks import codec
from nightjar.simulation.collect_updates import Updates
from nightjar.wire.parameters import ParameterLayout, ParameterSpec

LAYOUT = ParameterLayout((ParameterSpec("embedding", (40, 25)), ParameterSpec("bias", (60,))))
FIGURES = {
    *("density", "report_bytes", "position_bits", "value_bits", "model_bits", "uniform_bits", "zlib_bytes"),
    *("lzma_bytes", "energy_kept", "encode_ms", "decode_ms", "ratio"),
}


@pytest.fixture
def updates():
    generator = np.random.default_rng(3)
    deltas = [generator.standard_t(2, LAYOUT.size).astype(np.float32) for _ in range(8)]
    return Updates("none", "none", 3, LAYOUT, deltas)


@pytest.mark.parametrize("name", ["topk-4", "topk-8"])
def test_every_density_has_every_figure_and_no_mass_is_lost(updates, name, monkeypatch):
    monkeypatch.setattr(codec, "REPORTS", 4)
    found = codec.measure(updates, name, Console(stderr=True))
    assert [row["density"] for row in found["densities"]] == [0.001, 0.01, 0.05]
    for row in found["densities"]:
        assert set(row) == FIGURES
        assert all(math.isfinite(value) and value > 0 for value in row.values())
    assert found["error_feedback_mass_lost"] == 0
    assert 0 < found["error_feedback_rounding"] < 1e-6


def test_mass_that_is_lost_is_seen(updates, monkeypatch):
    class Forgetful(codec.FeedbackCodec):
        def write(self, delta, residual, layout, generator):
            encoded, following = super().write(delta, residual, layout, generator)
            return encoded, following * (np.arange(layout.size) != np.abs(following).argmax())

    monkeypatch.setattr(codec, "FeedbackCodec", Forgetful)
    assert codec._conservation(updates, "topk-4")["error_feedback_mass_lost"] > 1e-3
