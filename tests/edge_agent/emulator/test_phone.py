from functools import partial

import pytest

from nightjar.edge_agent.core.eligibility import Condition, Demand, judge
from nightjar.edge_agent.emulator.day import Day, Segment, state_at
from nightjar.edge_agent.emulator.phone import PlayedPhone, ScriptedConditions, read_messages
from nightjar.wire.errors import ConfigError
from nightjar.wire.messages import DropoutCause


def segment(from_hour, **changes):
    usual = {"charging": True, "in_use": False, "wifi": True, "battery": 0.9}
    return Segment(from_hour=from_hour, **(usual | changes))


class Clock:
    now_s = 5000.0


def phone(clock, *segments, speed=3600.0, start_hour=0.0):
    day = Day(segments=segments, jitter_minutes=0, interruptions_per_hour=0)
    played = PlayedPhone(partial(state_at, day, 1), speed, start_hour, 5000.0, lambda: clock.now_s)
    return ScriptedConditions(played, 0.3)


def verdict(conditions):
    return judge(
        conditions(),
        {condition: Demand.REQUIRED if condition in conditions() else Demand.IGNORED for condition in Condition},
    )


@pytest.mark.parametrize(
    ("lost", "cause"),
    [
        ({"charging": False}, DropoutCause.UNPLUGGED),
        ({"in_use": True}, DropoutCause.IN_USE),
        ({"wifi": False}, DropoutCause.METERED),
        ({"battery": 0.1}, DropoutCause.LOW_BATTERY),
    ],
)
def test_each_part_of_the_day_is_a_condition(lost, cause):
    assert verdict(phone(Clock(), segment(0))).eligible
    assert verdict(phone(Clock(), segment(0, **lost))).cause is cause


def test_time_runs_faster_from_the_start_hour_on():
    clock = Clock()
    conditions = phone(clock, segment(0), segment(12, charging=False), start_hour=11.0)
    assert verdict(conditions).eligible
    clock.now_s += 1.5
    assert not verdict(conditions).eligible
    clock.now_s += 12
    assert verdict(conditions).eligible


def test_it_knows_the_hour_of_its_own_day():
    clock = Clock()
    emulated = phone(clock, segment(0), start_hour=23.5)
    assert emulated.phone.minute() == 23 * 60 + 30
    clock.now_s += 1.0
    assert emulated.phone.minute() == 30
    assert emulated()[Condition.IDLE].source == "emulated day"


def test_a_clock_that_was_set_back_stays_at_the_first_moment():
    moments = []
    phone = PlayedPhone(lambda s: moments.append(s) or "state", 60.0, 2.0, 5000.0, lambda: 0.0)
    assert phone.state() == "state"
    assert moments == [7200.0]


@pytest.fixture
def messages(tmp_path):
    path = tmp_path / "messages.txt"
    path.write_text("hello there\n\n  how are you \nnaïve café\n", encoding="utf-8")
    return path


def test_messages_are_lines(messages):
    assert read_messages(messages) == ["hello there", "how are you", "naïve café"]


@pytest.mark.parametrize("content", [b"", b"\n  \n", b"\xff\xfe"])
def test_a_file_without_messages_is_a_config_error(tmp_path, content):
    path = tmp_path / "messages.txt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"emulator\.messages"):
        read_messages(path)


def test_a_missing_file_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        read_messages(tmp_path / "nowhere.txt")
