from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.rounds.lease import (
    BARRED_S,
    REFUSALS_ALLOWED,
    SHARE_WINDOW,
    CheckInCame,
    Lease,
    ReportCounted,
    ReportRefused,
    step,
)
from nightjar.coordinator.rounds.selection import Admission, refusal, sample
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import CheckIn, RejectionReason

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


def checked_in(*rounds: int, version: str = "0.2.0", examples: int = 5) -> Lease:
    """A device whose reports counted in these rounds."""
    message = CheckIn(agent_version=version, runtime="none", examples=examples)
    lease = step(Lease(device=DeviceId("a")), CheckInCame(message, 1.0))
    for number in rounds:
        lease = step(lease, ReportCounted(number))
    return step(lease, CheckInCame(message, 2.0))


def admission(**changes) -> Admission:
    return Admission(**({"minimum_examples": 5, "minimum_agent_version": "0.2.0"} | changes))


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
    refused = refusal(checked_in(version=version, examples=examples), 1, admission(), 2.0)
    assert (refused.reason if refused else None) is reason


def test_without_limits_a_device_may_take_part_in_every_round():
    assert refusal(checked_in(*range(1, 60)), 60, admission(), 2.0) is None


def test_a_device_is_left_in_peace_for_some_rounds_and_told_how_many():
    lease, limits = checked_in(4), admission(minimum_separation=3)
    refused = refusal(lease, 5, limits, 2.0)
    assert (refused.reason, refused.rounds) == (RejectionReason.TOOK_PART_LATELY, 2)
    assert refused.detail == "it took part in round 4 and may again from round 7 on"
    assert refusal(lease, 6, limits, 2.0).rounds == 1
    assert refusal(lease, 7, limits, 2.0) is None


def test_in_the_round_in_which_it_took_part_the_round_itself_answers():
    assert refusal(checked_in(4), 4, admission(minimum_separation=3), 2.0) is None


@given(st.integers(1, SHARE_WINDOW), st.integers(60, 200))
def test_whoever_always_comes_takes_part_as_often_as_the_limits_allow_and_no_more(separation, rounds):
    limits = admission(minimum_separation=separation)
    lease, taken = checked_in(), []
    for number in range(1, rounds + 1):
        refused = refusal(lease, number, limits, 2.0)
        if refused is None:
            taken.append(number)
            lease = checked_in_again(step(lease, ReportCounted(number)))
        else:
            assert refused.rounds >= 1
            assert refusal(lease, number + refused.rounds, limits, 2.0) is None, "the wait that it is told is enough"
            assert refusal(lease, number + refused.rounds - 1, limits, 2.0) is not None, "and not too long"
    assert all(later - earlier >= separation for earlier, later in pairwise(taken))


def checked_in_again(lease: Lease) -> Lease:
    return step(lease, CheckInCame(CheckIn(agent_version="0.2.0", runtime="", examples=5), 1.0))


def test_a_device_whose_reports_could_not_be_used_is_barred_for_a_day():
    lease = checked_in()
    for _ in range(REFUSALS_ALLOWED):
        lease = step(lease, ReportRefused(10.0))
    refused = refusal(lease, 5, admission(), 10.0 + 3600.0)
    assert refused.reason is RejectionReason.BLOCKED
    assert refused.detail == "3 of its reports could not be used; it may take part again in 23 h"
    assert refusal(lease, 5, admission(), 10.0 + BARRED_S) is None
