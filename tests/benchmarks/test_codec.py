"""The codec's benchmark on small updates: every figure is there, and what it says of error feedback is true."""

import math

import numpy as np
import pytest
from rich.console import Console

from benchmarks import codec
from simulation.collect_updates import About, Updates
from wire.parameters import ParameterLayout, ParameterSpec

LAYOUT = ParameterLayout((ParameterSpec("embedding", (40, 25)), ParameterSpec("bias", (60,))))
FIGURES = {
    *("density", "report_bytes", "position_bits", "value_bits", "model_bits", "uniform_bits", "zlib_bytes"),
    *("lzma_bytes", "energy_kept", "encode_ms", "decode_ms", "ratio"),
}


@pytest.fixture
def updates():
    generator = np.random.default_rng(3)
    deltas = [generator.standard_t(2, LAYOUT.size).astype(np.float32) for _ in range(8)]
    about = About(
        format=1,
        corpus="none",
        model="none",
        seed=3,
        clients=len(deltas),
        warm_up_steps=0,
        warm_up_rate=1.0,
        learning_rate=1.0,
        local_epochs=1,
        clip_norm=1.0,
        parameters=LAYOUT.size,
        vocabulary=40,
        invented_words=0,
        runtime="none",
        base_loss=0.0,
        base_top1=0.0,
        base_top3=0.0,
        updates=(),
    )
    return Updates(LAYOUT, deltas, about)


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
    real = codec.with_error_feedback

    def forgetful(chosen):
        whole = real(chosen)

        def write(delta, residual, layout, generator):
            encoded, following = whole.write(delta, residual, layout, generator)
            return encoded, following * (np.arange(layout.size) != np.abs(following).argmax())

        return type(whole)(whole.init, write)

    monkeypatch.setattr(codec, "with_error_feedback", forgetful)
    assert codec._conservation(updates, "topk-4")["error_feedback_mass_lost"] > 1e-3
