import numpy as np
import pytest

from nightjar.experiments.codec_study.coarse import coarse_codec
from nightjar.wire.codec import codec_for
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.messages import CodecChoice
from tests.experiments.codec_study.settings import LAYOUT

DELTA = np.random.default_rng(3).standard_normal(LAYOUT.size).astype(np.float32)


def sent(codec, seed=0):
    return codec.decode(codec.encode(DELTA, LAYOUT, np.random.default_rng(seed)), LAYOUT)


def test_four_bits_are_those_of_the_named_codec():
    choice = CodecChoice(name="topk-4", density=0.2)
    coarse, named = sent(coarse_codec(choice)), sent(codec_for(choice))
    np.testing.assert_array_equal(coarse.indices, named.indices)
    np.testing.assert_array_equal(coarse.values, named.values)


@pytest.mark.parametrize(("bits", "most_error"), [(2, 0.6), (3, 0.2), (5, 0.02), (8, 0.001)])
def test_more_bits_err_less(bits, most_error):
    update = sent(coarse_codec(CodecChoice(name=f"topk-{bits}", density=0.2)))
    exact = DELTA[update.indices]
    assert np.square(update.values - exact).sum() < most_error * np.square(exact).sum()
    assert len(set(np.abs(update.values).tolist())) <= 2 ** (bits - 1)


@pytest.mark.slow
def test_stochastic_rounding_is_right_on_average():
    codec = coarse_codec(CodecChoice(name="topk-4-unbiased", density=0.2))
    mean = np.mean([sent(codec, seed).values for seed in range(400)], axis=0)
    exact = DELTA[sent(codec).indices]
    assert np.abs(mean - exact).max() < 0.1
    assert abs(np.abs(mean).mean() - np.abs(exact).mean()) < 0.005


def test_the_norm_is_that_of_what_is_sent():
    codec = coarse_codec(CodecChoice(name="topk-3", density=0.2))
    payload = codec.encode(DELTA, LAYOUT, np.random.default_rng(0))
    assert codec.read(payload, LAYOUT).norm == pytest.approx(float(np.linalg.norm(sent(codec).values)))


@pytest.mark.parametrize("name", ["topk-1", "topk-9", "topk-4-", "mask-4", ""])
def test_other_names_are_refused(name):
    with pytest.raises(LocalProtocolError, match="topk-BITS"):
        coarse_codec(CodecChoice(name=name))
