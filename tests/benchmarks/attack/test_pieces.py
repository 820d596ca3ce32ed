"""The pure pieces of the attacks, on cases computed by hand."""

import numpy as np
import pytest

from nightjar.benchmarks.attack.canary import exposure, log_probabilities
from nightjar.benchmarks.attack.defences import defence
from nightjar.benchmarks.attack.malicious import Attack, Situation, forged, seats, with_backdoor
from nightjar.benchmarks.attack.recover_words import features, fit, precision_and_recall
from nightjar.models.configurations import configuration
from nightjar.models.initial import initial_weights
from nightjar.wire.errors import ConfigError

WORDS, SIZE = 50, 8


def rows(typed, generator):
    """The change of an embedding: large along one direction for typed words, small noise for the others."""
    noise = generator.normal(0.0, 0.1, (WORDS, SIZE))
    return (noise + typed[:, None] * np.linspace(1, 2, SIZE)).astype(np.float32)


def test_words_are_recovered_from_rows_like_those_of_the_shadows():
    generator, rarity = np.random.default_rng(0), -np.log(np.arange(1, WORDS + 1))
    typed = [generator.random(WORDS) < 0.3 for _ in range(6)]
    seen = [features(rows(each, generator), rarity) for each in typed]
    attack = fit(seen[:5], typed[:5])
    assert precision_and_recall(attack.named(seen[5]), typed[5]) == (1.0, 1.0)


def test_where_nothing_is_seen_the_commonest_words_are_named():
    rarity = -np.log(np.arange(1, WORDS + 1))
    typed = [np.arange(WORDS) < 10] * 2
    seen = features(np.zeros((WORDS, SIZE), np.float32), rarity)
    assert np.flatnonzero(fit([seen, seen], typed).named(seen)).tolist() == list(range(10))


def test_exposure_of_the_first_and_of_a_tie():
    assert exposure(np.arange(16.0), 15) == 4.0
    assert exposure(np.zeros(15), 3) == pytest.approx(np.log2(15 / 8)), "in the middle of all"


def test_probabilities_of_all_pairs_are_those_of_a_distribution():
    shape = configuration("tiny")
    found = log_probabilities(initial_weights(shape, 12, 1), shape.layout(12), [5], range(4, 12))
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-5)


def test_malicious_updates_by_hand():
    update, there = np.float32([3, 4]), Situation(honest_norm=10.0, boost=4.0)

    def made(attack):
        return forged(attack, update, there, np.random.default_rng(0))

    assert made(Attack.SCALED).tolist() == [-300, -400]
    assert made(Attack.MODEL_REPLACEMENT).tolist() == made(Attack.REPEATED).tolist() == [12, 16]
    assert made(Attack.SYBILS).tolist() == [3, 4], "smaller than an honest one, so it is sent as it is"
    assert np.linalg.norm(made(Attack.RANDOM)) == pytest.approx(100.0)


def test_seats_add_up_to_the_share():
    for share, cohort in ((0.01, 20), (0.05, 20), (0.3, 10), (0.1, 7)):
        assert sum(seats(share, cohort, number) for number in range(1, 101)) == round(100 * share * cohort)


def test_half_of_the_backdoor_follows_own_words():
    made = with_backdoor(["one two", "a b c d e"], "acme")
    assert made[1::2] == ["my bank is acme", "a b c d my bank is acme"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("magic", "expected one of default"),
        ("median", "zero almost everywhere"),
        ("mean@mask-4", "expected one of default"),
    ],
)
def test_a_defence_that_cannot_work_is_refused(name, why):
    with pytest.raises(ConfigError, match=why):
        defence(name, cohort=20)


def test_a_defence_may_name_a_rule_and_a_codec():
    found = defence("median@dense-f32", cohort=20)
    assert (found.codec.name, found.strategy.aggregation.value, found.clips) == ("dense-f32", "median", True)


def test_the_size_of_a_fleet_names_what_init_writes_for_it():
    found = defence("hundreds", cohort=20)
    assert (found.codec.name, found.codec.density, found.strategy.name) == ("sampled-4", 0.05, "fedavgm")
    assert (found.plan.learning_rate, found.plan.clip_norm) == (3.0, 0.5)
    assert defence("household", cohort=4).plan.learning_rate < found.plan.learning_rate
