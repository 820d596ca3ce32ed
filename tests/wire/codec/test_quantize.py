import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import vectors
from wire.codec.quantize import dequantize_8bit, quantize_8bit


@given(st.integers(0, 30).flatmap(vectors))
def test_every_value_is_within_one_level_of_the_truth(values):
    quantized = quantize_8bit(values, np.random.default_rng(0))
    assert quantized.levels.size == 0 or quantized.levels.min() >= -127
    error = np.abs(dequantize_8bit(quantized).astype(np.float64) - values.astype(np.float64))
    assert (error <= float(quantized.scale) / 127 * (1 + 1e-6)).all()


def test_rounding_is_unbiased():
    values = np.array([1.0, 0.1234, -0.3, 0.0001], np.float32)
    rng = np.random.default_rng(0)
    mean = np.mean([dequantize_8bit(quantize_8bit(values, rng)) for _ in range(4_000)], axis=0)
    assert np.abs(mean - values).max() < 6 * (1 / 127) / 2 / np.sqrt(4_000)


def test_the_largest_value_is_exact():
    values = np.array([0.3, -7.25], np.float32)
    assert dequantize_8bit(quantize_8bit(values, np.random.default_rng(0)))[1] == -7.25


def test_same_generator_same_levels():
    values = np.linspace(-1, 1, 100, dtype=np.float32)
    a, b = (quantize_8bit(values, np.random.default_rng(3)) for _ in range(2))
    assert (a.levels == b.levels).all()
