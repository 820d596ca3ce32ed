import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.wire.backoff import BackOff


@settings(deadline=None)
@given(st.integers(1, 10**6), st.floats(0, 1, exclude_max=True))
def test_every_wait_is_positive_and_at_most_the_longest(tries, jitter):
    assert 0.5 <= BackOff(1.0, 60.0).delay_s(tries, jitter) <= 60.0


def test_waits_double_until_the_longest():
    waits = [BackOff(1.0, 10.0).delay_s(tries, 0.0) for tries in range(1, 7)]
    assert waits == pytest.approx([0.5, 1.0, 2.0, 4.0, 5.0, 5.0])


def test_jitter_spreads_a_wait_over_its_upper_half():
    policy = BackOff(8.0, 60.0)
    assert [policy.delay_s(1, j) for j in (0.0, 0.5)] == [4.0, 6.0]
