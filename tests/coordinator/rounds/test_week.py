from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.rounds.week import DAY_S, DAYS, MOST_CHARACTERS, MOST_DOINGS, OTHER, noted, spent

SAID = st.tuples(st.text(max_size=100), st.floats(0, 3 * DAY_S))


def told(*said):
    week, now_s = b"", 20_000 * DAY_S
    for doing, after_s in said:
        now_s += after_s
        week = noted(week, doing, now_s)
    return week, now_s


@given(st.lists(SAID, max_size=60))
def test_no_second_is_counted_twice_and_what_a_device_says_stays_small(said):
    week, now_s = told(*said)
    days = spent(week, now_s)
    assert len(days) <= DAYS
    for day, spans in days.items():
        assert len(spans) <= MOST_DOINGS + 1
        assert all(len(name) <= MOST_CHARACTERS for name in spans)
        assert 0 < sum(spans.values()) <= min(DAY_S, now_s - day * DAY_S) + len(said)  # rounded to seconds
    assert len(week) < 20_000


def test_many_different_words_of_one_day_are_one():
    week, now_s = told(*((f"reason {number}", 60.0) for number in range(MOST_DOINGS + 9)))
    (spans,) = spent(week, now_s).values()
    assert spans[OTHER] == 8 * 60


def test_what_is_repeated_changes_nothing():
    week, now_s = told(("not charging", 5.0))
    assert noted(week, "not charging", now_s + 999) is week


def test_days_are_forgotten_after_a_week():
    week, now_s = told(("in use", 0.0), ("offline", 3600.0))
    later = spent(noted(week, "training", now_s + 9 * DAY_S), now_s + 9 * DAY_S)
    assert [set(spans) for spans in later.values()] == [{"offline"}] * DAYS
