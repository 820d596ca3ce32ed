import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.edge_agent.emulator.day import (
    DAY_S,
    DEFAULT_DAY,
    HOUR_S,
    Day,
    PhoneState,
    Segment,
    _borders,
    day_from_toml,
    state_at,
)
from nightjar.wire.errors import ConfigError

SCRIPT = """
jitter_minutes = 0
interruptions_per_hour = 0

[[segments]]
from_hour = 0
charging = true
in_use = false
wifi = true
battery = 0.5

[[segments]]
from_hour = 12.0
charging = false
in_use = true
wifi = false
battery = 1.0
"""
PLAIN = day_from_toml(SCRIPT, "test")


@pytest.mark.parametrize(
    ("hour", "state"),
    [
        (0, PhoneState(True, False, True, 0.5)),
        (6, PhoneState(True, False, True, 0.75)),
        (12, PhoneState(False, True, False, 1.0)),
        (18, PhoneState(False, True, False, 0.75)),
        (24, PhoneState(True, False, True, 0.5)),
        (24 * 9 + 6, PhoneState(True, False, True, 0.75)),
    ],
)
def test_the_script_is_followed_and_repeated(hour, state):
    assert state_at(PLAIN, 1, hour * HOUR_S) == state


@settings(deadline=None)
@given(st.integers(0, 2**40), st.floats(0, 400 * DAY_S))
def test_the_state_follows_from_seed_and_moment_alone(seed, virtual_s):
    state = state_at(DEFAULT_DAY, seed, virtual_s)
    assert state == state_at(DEFAULT_DAY, seed, virtual_s)
    assert 0.0 <= state.battery <= 1.0


def trace(seed, day=DEFAULT_DAY, days=3):
    return [state_at(day, seed, minute * 60.0) for minute in range(days * 24 * 60)]


def test_two_phones_and_two_days_differ():
    first, second = trace(1), trace(2)
    assert first != second
    assert first[: 24 * 60] != first[24 * 60 : 48 * 60]


def test_the_default_day_charges_by_night_and_is_used_in_the_evening():
    for seed in range(5):
        day = trace(seed, days=10)
        night = [day[number * 1440 + 180] for number in range(10)]
        evening = [day[number * 1440 + 21 * 60] for number in range(10)]
        assert sum(s.charging and s.wifi and not s.in_use for s in night) >= 8
        assert all(s.in_use for s in evening)
        share = sum(s.charging and s.wifi and not s.in_use for s in day) / len(day)
        assert 0.3 < share < 0.65


def test_interruptions_are_short_and_about_as_many_as_asked_for():
    day = Day(segments=PLAIN.segments[:1], jitter_minutes=0, interruptions_per_hour=0.5, interruption_minutes=5)
    minutes = trace(3, day, days=30)
    disturbed = [s.in_use or not s.charging for s in minutes]
    begins = sum(b and not a for a, b in itertools.pairwise(disturbed))
    assert 0.4 < begins / (30 * 24) < 0.6
    assert 3 < sum(disturbed) / begins < 7
    assert {(s.in_use, s.charging) for s in minutes} == {(False, True), (True, True), (False, False)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "segments = []",
        "no toml",
        SCRIPT.replace("from_hour = 0", "from_hour = 1"),
        SCRIPT.replace("from_hour = 12.0", "from_hour = 0"),
        SCRIPT.replace("from_hour = 12.0", "from_hour = 25"),
        SCRIPT.replace("battery = 0.5", "battery = 50"),
        SCRIPT.replace("wifi", "wlan"),
        SCRIPT + "\nspeed = 'fast'",
    ],
)
def test_a_script_that_is_none_is_a_config_error(text):
    with pytest.raises(ConfigError, match=r"day\.toml: expected a day"):
        day_from_toml(text, "day.toml")


def test_borders_that_would_cross_stay_in_order():
    segments = tuple(
        Segment(from_hour=hour, charging=True, in_use=False, wifi=True, battery=1.0) for hour in (0, 0.1, 0.2, 23.9)
    )
    day = Day(segments=segments, jitter_minutes=120)
    for seed in range(50):
        borders = _borders(day, seed, 0)
        assert borders[0] == 0.0
        assert list(borders) == sorted(borders)
        assert borders[-1] <= 24.0
