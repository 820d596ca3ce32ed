"""The noise that is really added: its variance, and that repeated aggregations add the same."""

from functools import partial

import numpy as np
import pytest

from nightjar.coordinator.learning.fedavg import ClientUpdate, federated_average
from nightjar.coordinator.learning.privacy.adaptive_clipping import next_private_norm
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms, noised_mean
from nightjar.coordinator.learning.privacy.tree_noise import noise_step, prefix_variance, ratcheted
from nightjar.coordinator.learning.strategies import StrategyChoice, StrategyName, Weighting, optimizer_for
from nightjar.wire.codec import codec_for
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, ParameterSpec

KEY = b"a secret of the task"
MANY = 40_000
"""The estimate of a variance from so many coordinates is off by 0.7 %."""


def test_the_noise_of_a_prefix_sum_has_the_variance_of_the_nodes_that_cover_it():
    total = np.zeros(MANY)
    for step in range(40):
        total += noise_step(KEY, step, 40, MANY)
        assert total.var() == pytest.approx(prefix_variance(step + 1), rel=0.04), step
        assert abs(total.mean()) < 0.03


def ratchet(rounds, leaves):
    """The secrets before each round, and after the last."""
    held = [(KEY, {})]
    for step in range(rounds):
        held.append(ratcheted(held[-1][0], step, leaves, held[-1][1]))
    return held


def test_the_noise_of_secrets_that_are_replaced_has_that_variance_too():
    total = np.zeros(MANY)
    for step, (key, kept) in enumerate(ratchet(40, 40)[:-1]):
        total += noise_step(key, step, 40, MANY, kept)
        assert total.var() == pytest.approx(prefix_variance(step + 1), rel=0.04), step


def test_only_seeds_that_later_rounds_build_on_are_kept_and_none_after_the_tree():
    held = ratchet(64, 64)
    assert [len(kept) for _, kept in held[:5]] == [0, 1, 3, 4, 7]
    assert max(len(kept) for _, kept in held) < 31 * 6
    after_33, at_the_end = held[33][1], held[-1][1]
    assert "5/0" in after_33
    left = (len({key for key, _ in held}), "0/0" in after_33, at_the_end)
    assert left == (65, False, {}), "the first round's own noise is gone"


def test_secrets_of_before_the_ratchet_go_on_in_the_middle_of_a_tree():
    total = sum(noise_step(KEY, step, 8, MANY) for step in range(3))
    after = noise_step(KEY, 3, 8, MANY, {})
    key, kept = ratcheted(KEY, 3, 8, {})
    following = noise_step(key, 4, 8, MANY, kept)
    assert (total + after + following).var() == pytest.approx(prefix_variance(5), rel=0.04)


def test_the_noise_grows_far_slower_than_with_fresh_noise_in_each_round():
    assert prefix_variance(1000) < 6
    assert prefix_variance(1024) == pytest.approx(16 / 31)


def test_trees_are_independent_of_each_other_and_of_another_task():
    first, second = noise_step(KEY, 0, 8, MANY), noise_step(KEY, 8, 8, MANY)
    other = noise_step(b"another secret", 0, 8, MANY)
    for a, b in ((first, second), (first, other), (second, other)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.03


def test_without_separation_each_round_has_fresh_noise_of_deviation_one():
    rounds = [noise_step(KEY, step, 1, MANY) for step in range(3)]
    assert np.std(rounds, axis=1) == pytest.approx([1, 1, 1], rel=0.02)
    assert np.abs(np.corrcoef(rounds) - np.eye(3)).max() < 0.03


def test_the_noise_is_normal():
    drawn = noise_step(KEY, 5, 8, MANY) / np.std(noise_step(KEY, 5, 8, MANY))
    for limit, share in ((1.0, 0.6827), (2.0, 0.9545), (3.0, 0.9973)):
        assert (np.abs(drawn) < limit).mean() == pytest.approx(share, abs=0.01)


LAYOUT = ParameterLayout((ParameterSpec("w", (MANY,)),))
DENSE = codec_for(CodecChoice(name="dense-f32"))


def averaged(updates, terms, step=0):
    cohort = [
        ClientUpdate(
            DeviceId(f"d{number}"), 10**number, lambda v=value: DENSE.encode(v, LAYOUT, np.random.default_rng())
        )
        for number, value in enumerate(updates)
    ]
    optimizer = optimizer_for(StrategyChoice(name=StrategyName.FEDAVG, learning_rate=1.0))
    start = np.zeros(MANY, np.float32)
    return federated_average(
        start,
        optimizer.init(MANY),
        cohort,
        DENSE,
        LAYOUT,
        optimizer,
        terms.clip_norm,
        1,
        noised_mean(terms, step, terms.clip_norm),
        weighting=Weighting.EQUAL,
        next_norm=partial(next_private_norm, terms, step),
    )


def terms(multiplier, devices=4):
    return NoiseTerms(clip_norm=2.0, devices=devices, multiplier=multiplier, separation=1, key=KEY.hex())


def unit(coordinate, norm):
    vector = np.zeros(MANY, np.float32)
    vector[coordinate] = norm
    return vector


def test_a_round_adds_noise_of_the_calibrated_deviation_to_the_mean():
    done = averaged([unit(0, 1.0), unit(1, 1.0)], terms(3.0))
    assert np.std(done.weights) == pytest.approx(3.0 * 2.0 / 4, rel=0.02)


def test_one_device_moves_the_sum_by_at_most_the_clip_norm_whatever_it_reports():
    with_it = averaged([unit(0, 1.0), unit(1, 1e6)], terms(3.0)).weights.astype(np.float64)
    without = averaged([unit(0, 1.0), unit(1, 0.0)], terms(3.0)).weights.astype(np.float64)
    assert 4 * np.linalg.norm(with_it - without) == pytest.approx(2.0, rel=1e-3)


def test_devices_count_the_same_and_the_goal_divides_though_fewer_report():
    done = averaged([unit(0, 1.0), unit(1, 1.0)], terms(0.0))
    assert done.weights[:2].tolist() == [0.25, 0.25]


def test_the_clip_norm_does_not_follow_the_updates():
    assert averaged([unit(0, 1e6)], terms(0.0)).clip_norm == 2.0


def test_a_repeated_aggregation_gives_the_same_weights_bit_for_bit():
    one, other = (averaged([unit(0, 1.0)], terms(1.0), step=7).weights.tobytes() for _ in range(2))
    assert one == other
