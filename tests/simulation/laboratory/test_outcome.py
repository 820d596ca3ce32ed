import pytest

from nightjar.simulation.laboratory.checkpoint import Point
from nightjar.simulation.laboratory.outcome import time_taken


def curve(*top1, hours=1.0):
    return [
        Point(
            round=n, loss=1.0, top1=each, top3=each, hours=n * hours, device_seconds=10.0 * n, wasted_seconds=float(n)
        )
        for n, each in enumerate(top1)
    ]


def test_the_time_to_the_firsts_recall_is_interpolated_and_averaged_over_the_seeds():
    first = [curve(0.0, 0.1, 0.2, hours=3.0), curve(0.0, 0.1, 0.1, hours=3.0)]
    taken = time_taken([curve(0.0, 0.4), curve(0.0, 0.05, 0.15)], first)
    assert taken.hours_to_first == pytest.approx((0.5 + 1.5) / 2)
    assert taken.device_seconds_to_first == pytest.approx(10.0)
    assert (taken.hours, taken.device_seconds, taken.wasted_seconds) == (1.5, 15.0, 1.5)


def test_what_one_seed_never_reached_has_no_time():
    first = [curve(0.0, 0.2), curve(0.0, 0.2)]
    assert time_taken([curve(0.0, 0.3), curve(0.0, 0.1)], first).hours_to_first is None


def test_without_a_clock_there_is_no_time():
    timeless = [[Point(round=0, loss=1.0, top1=0.1, top3=0.1)]]
    assert time_taken(timeless, timeless) is None
