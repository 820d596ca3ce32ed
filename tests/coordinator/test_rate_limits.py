from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.rate_limits import (
    BURST,
    FIRST_CUT_OFF_S,
    FORGOTTEN_AFTER_S,
    LONGEST_CUT_OFF_S,
    MOST_IDLE,
    PER_SECOND,
    CutOff,
    DeviceRateLimits,
    cost_of,
)
from nightjar.wire.frame import MAX_PUBLISH_BYTES, MAX_REPORT_BYTES, chunks_of


class Limited:
    def __init__(self, **named) -> None:
        self.time_s, self.flooded = 1000.0, []
        self.limits = DeviceRateLimits(lambda: self.time_s, self.flooded.append, **named)

    def floods(self, device: str = "pi") -> CutOff | None:
        dropped = any(not self.limits.admits(device) for _ in range(3 * BURST))
        return self.flooded[-1] if dropped else None


def test_the_largest_report_passes_at_once():
    limited = Limited()
    chunks = chunks_of(MAX_REPORT_BYTES)
    assert all(limited.limits.admits("pi", cost_of(MAX_PUBLISH_BYTES)) for _ in range(chunks + chunks // 8))
    assert limited.flooded == []


@given(st.floats(0.1, 5.0), st.integers(1, 400))
def test_what_passes_in_any_time_is_at_most_the_burst_and_the_rate(seconds, steps):
    limited = Limited()
    passed = 0
    for _ in range(steps):
        limited.time_s += seconds / steps
        passed += sum(limited.limits.admits("pi") for _ in range(20))
    assert passed <= BURST + PER_SECOND * seconds + 1
    assert (passed < 20 * steps) == bool(limited.flooded)


def test_who_keeps_to_the_rate_is_never_cut_off():
    limited = Limited()
    for _ in range(20 * BURST):
        limited.time_s += 1 / PER_SECOND
        assert limited.limits.admits("pi")


def test_one_that_floods_is_told_of_once_and_others_are_let_through():
    limited = Limited()
    told = limited.floods()
    passes = [limited.limits.admits(each) for each in ("pi", "another")]
    during = (len(limited.flooded), limited.limits.cut_off(), limited.limits.remaining_s("pi"))
    limited.time_s += FIRST_CUT_OFF_S
    remaining = {limited.limits.remaining_s(each) for each in ("pi", "another")}
    after = (limited.limits.cut_off(), remaining, limited.limits.admits("pi"))
    assert (told, passes, during, after) == (
        CutOff("pi", 1000.0 + FIRST_CUT_OFF_S, FIRST_CUT_OFF_S),
        [False, True],
        (1, {"pi"}, FIRST_CUT_OFF_S),
        (frozenset(), {0}, True),
    )


def test_one_that_flooded_elsewhere_is_cut_off_here_once():
    limited = Limited()
    limited.limits.cut("pi")
    limited.limits.cut("pi")
    assert limited.flooded == [CutOff("pi", 1000.0 + FIRST_CUT_OFF_S, FIRST_CUT_OFF_S)]
    assert not limited.limits.admits("pi")
    assert [limited.limits.is_cut_off(each) for each in ("pi", "another")] == [True, False]
    limited.time_s += FIRST_CUT_OFF_S
    limited.limits.cut("pi")
    assert limited.flooded[1:] == [CutOff("pi", limited.time_s + 2 * FIRST_CUT_OFF_S, 2 * FIRST_CUT_OFF_S)]


def test_who_floods_again_is_cut_off_for_twice_as_long_until_it_behaves_for_a_day():
    limited, lasted = Limited(), []
    for _ in range(9):
        lasted.append(limited.floods().lasts_s)
        limited.time_s += lasted[-1]
    assert lasted[:3] == [FIRST_CUT_OFF_S, 2 * FIRST_CUT_OFF_S, 4 * FIRST_CUT_OFF_S]
    assert lasted[-1] == LONGEST_CUT_OFF_S
    limited.time_s += FORGOTTEN_AFTER_S + 1
    assert limited.limits.cut_off() == frozenset()
    assert limited.floods().lasts_s == FIRST_CUT_OFF_S


def test_names_that_nobody_uses_any_more_take_no_memory():
    limited = Limited()
    for number in range(10 * MOST_IDLE):
        limited.time_s += 1
        limited.limits.admits(f"pi-{number}")
    assert len(limited.limits._full_at_s) <= MOST_IDLE + 1
