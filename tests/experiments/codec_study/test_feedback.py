"""Error feedback: what was not sent is not lost, whatever becomes of the reports."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.experiments.codec_study.feedback import FeedbackCodec
from nightjar.wire.codec import NAMES, codec_for
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, ParameterSpec

LAYOUT = ParameterLayout((ParameterSpec("embedding", (20, 6)), ParameterSpec("bias", (10,))))
BIASED = [name for name in NAMES if name != "sampled-4"]
"""A sampled update leaves nothing out in the mean, so there is nothing to keep."""
fates = st.lists(st.sampled_from(["accepted", "duplicated", "late", "given up"]), max_size=12)


def codec_named(name):
    return codec_for(CodecChoice(name=name, density=0.05))


def delta(seed):
    return np.random.default_rng(seed).normal(size=LAYOUT.size).astype(np.float32)


@pytest.mark.slow
@settings(max_examples=40)
@given(fates)
@pytest.mark.parametrize("name", BIASED)
def test_what_was_added_up_and_the_residual_are_what_was_trained(name, fates):
    """The state is adopted on receipt only, and a late report is put back: nothing is lost and nothing counts twice.

    A report that was given up for good (refused, or its round forgotten) leaves no trace on either side.
    """
    codec = codec_named(name)
    feedback = FeedbackCodec(codec)
    residual, generator = feedback.init(LAYOUT), np.random.default_rng(0)
    added, trained = np.zeros(LAYOUT.size), np.zeros(LAYOUT.size)
    for seed, fate in enumerate(fates):
        payload, following = feedback.encode(delta(seed), residual, LAYOUT, generator)
        sent = codec.decode(payload, LAYOUT).dense()
        match fate:
            case "accepted" | "duplicated":  # the second copy gets a receipt, too, and is not added
                added += sent
                residual = following
            case "late":
                residual = following + sent
        if fate != "given up":
            trained += delta(seed)
    assert np.abs(added + residual - trained).max() <= 1e-6 * (len(fates) + 1)


@pytest.mark.parametrize("name", BIASED)
def test_numbers_that_need_no_rounding_are_conserved_exactly(name):
    """Of small multiples of a power of two no sum is rounded: not a bit of mass is lost."""
    codec = codec_named(name)
    feedback = FeedbackCodec(codec)
    residual, generator = feedback.init(LAYOUT), np.random.default_rng(0)
    added, trained = np.zeros(LAYOUT.size), np.zeros(LAYOUT.size)
    for seed in range(30):
        update = np.random.default_rng(seed).integers(-3, 4, LAYOUT.size).astype(np.float32) / 8
        payload, residual = feedback.encode(update, residual, LAYOUT, generator)
        sent = codec.decode(payload, LAYOUT)
        added += sent.dense()
        trained += update
    untouched = np.ones(LAYOUT.size, bool)
    untouched[added != 0] = False
    assert (residual[untouched] == trained[untouched]).all()
    assert np.abs(added + residual - trained).max() <= 1e-5


@pytest.mark.parametrize("name", BIASED)
def test_encoding_changes_neither_the_residual_nor_the_delta(name):
    feedback = FeedbackCodec(codec_named(name))
    update, residual = delta(1), delta(2)
    update.setflags(write=False)
    residual.setflags(write=False)
    _, following = feedback.encode(update, residual, LAYOUT, np.random.default_rng(0))
    assert not np.shares_memory(following, residual)
    assert (residual == delta(2)).all()


def test_what_is_left_out_long_enough_is_sent():
    feedback = FeedbackCodec(codec_named("topk-4"))
    residual = feedback.init(LAYOUT)
    update = np.zeros(LAYOUT.size, np.float32)
    update[:7] = 1.0  # seven places, which is all that a density of 5 % sends
    update[7] = 0.3
    sent_small = []
    for _ in range(8):
        payload, residual = feedback.encode(update, residual, LAYOUT, np.random.default_rng(0))
        sent_small.append(7 in codec_named("topk-4").decode(payload, LAYOUT).indices)
    assert any(sent_small)
    assert not sent_small[0]
