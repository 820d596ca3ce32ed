from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.selection import Admission, refusal, retry_after_s, sample
from wire.identifiers import DeviceId
from wire.messages import CheckIn, RejectionReason

POOL = [DeviceId(f"d{number:02d}") for number in range(20)]


@given(st.permutations(POOL), st.integers(0, 25), st.integers(0, 2**32), st.integers(1, 1000))
def test_a_sample_depends_on_the_seed_and_not_on_the_order_of_arrival(pool, count, seed, number):
    drawn = sample(pool, count, seed, number)
    assert drawn == sample(POOL, count, seed, number)
    assert len(set(drawn)) == len(drawn) == min(count, len(POOL))
    assert set(drawn) <= set(POOL)


def test_over_many_rounds_everyone_is_drawn_equally_often():
    drawn = Counter(device for number in range(1, 2001) for device in sample(POOL, 5, 7, number))
    # Binomial(2000, 1/4): mean 500, standard deviation 19.
    assert set(drawn) == set(POOL)
    assert all(400 < count < 600 for count in drawn.values())


@pytest.mark.parametrize(
    ("version", "examples", "reason"),
    [
        ("0.2.0", 5, None),
        ("0.10.0", 5, None),
        ("0.2.0-dev", 5, None),
        ("0.1.9", 5, RejectionReason.OUTDATED_AGENT),
        ("unknown", 5, RejectionReason.OUTDATED_AGENT),
        ("0.2.0", 4, RejectionReason.TOO_FEW_EXAMPLES),
    ],
)
def test_old_agents_and_devices_without_text_are_sent_away(version, examples, reason):
    check_in = CheckIn(agent_version=version, runtime="none", examples=examples)
    refused = refusal(check_in, Admission(minimum_examples=5, minimum_agent_version="0.2.0"))
    assert (refused[0] if refused else None) is reason


def windows(population: int, opens_in_s: float = 30.0) -> list[float]:
    generator = np.random.default_rng(1)
    return [retry_after_s(opens_in_s, 5.0, 60.0, population, 10, generator) for _ in range(500)]


def test_a_small_population_is_called_together_just_after_the_next_selection_opens():
    found = windows(population=50)
    assert min(found) >= 30.0
    assert max(found) <= 33.0


def test_a_large_population_is_spread_so_that_two_cohorts_come_in_a_window():
    found = windows(population=10_000)
    arrivals_in_a_window = 10_000 * 60.0 / (max(found) - min(found))
    assert 19 < arrivals_in_a_window < 21


def test_nobody_is_called_back_sooner_than_the_shortest_wait():
    assert min(windows(population=50, opens_in_s=-7.0)) >= 5.0
