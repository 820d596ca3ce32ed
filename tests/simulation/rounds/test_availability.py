from pathlib import Path

import numpy as np
import pytest

from nightjar.simulation.rounds.availability import DAY_S, Availability, GeneratedAvailability, TracedAvailability
from nightjar.wire.errors import ConfigError
from tests.skips import RECORDED

REAL = Path(__file__).parents[4] / "shared" / "data" / "phone_availability" / "windows.csv"
HEAD = "device,trace_start_s,trace_end_s,window_start_s,window_end_s\n"


def windows_of(availability: Availability, phone: int, from_s: float, to_s: float) -> list[tuple[float, float]]:
    found = []
    while from_s < to_s:
        window = availability.next_window(phone, from_s)
        assert window is not None
        assert window[1] > from_s
        found.append(window)
        from_s = window[1]
    return found


def share_free_by_hour(availability: Availability, phones: int) -> np.ndarray:
    moments = np.arange(DAY_S, 3 * DAY_S, 600.0)
    free = np.zeros(moments.size)
    for phone in range(phones):
        for begin_s, end_s in windows_of(availability, phone, DAY_S, 3 * DAY_S):
            free += (moments >= begin_s) & (moments < end_s)
    return free.reshape(2, 24, 6).mean(axis=(0, 2)) / phones


def trace(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "windows.csv"
    path.write_text(HEAD + "".join(f"{row}\n" for row in rows))
    return path


@pytest.mark.slow
def test_the_generated_day_swings_four_times_around_nine_percent():
    share = share_free_by_hour(GeneratedAvailability(1), 600)
    assert 0.07 < share.mean() < 0.12
    assert 3.2 < share.max() / share.min() < 5.0
    assert share.argmax() in range(1, 6)


def test_generated_windows_are_the_same_however_they_are_asked_for():
    availability = GeneratedAvailability(3)
    walked = windows_of(availability, 5, 0.0, 5 * DAY_S)
    assert all(end_s > begin_s for begin_s, end_s in walked)
    begin_s, end_s = walked[-1]
    assert availability.next_window(5, (begin_s + end_s) / 2) == (begin_s, end_s)


def test_a_trace_repeats_its_whole_days_at_the_same_hours(tmp_path):
    path = trace(tmp_path, "7,0,180000,3600,7200", "7,0,180000,90000,90060", "7,0,180000,5000,8000", "7,0,180000,50,50")
    found = windows_of(TracedAvailability(path, 1, np.random.default_rng(0)), 0, 0.0, 4 * DAY_S)
    days = [(3600, 8000), (90000, 90060)]  # two whole days: overlapping windows are one, an empty one is none
    assert found[:4] == days + [(begin_s + 2 * DAY_S, end_s + 2 * DAY_S) for begin_s, end_s in days]


def test_a_window_over_the_end_of_the_period_goes_on_at_its_beginning(tmp_path):
    path = trace(tmp_path, "7,43200,129600,82800,93600")
    availability = TracedAvailability(path, 1, np.random.default_rng(0))
    assert availability.next_window(0, 0.0) == (0.0, 7200.0)
    assert availability.next_window(0, 7200.0) == (82800.0, 86400.0)


def test_copies_of_a_phone_do_not_march_in_step(tmp_path):
    path = trace(tmp_path, "7,0,180000,3600,7200")
    availability = TracedAvailability(path, 3, np.random.default_rng(0))
    begins = {availability.next_window(phone, 10 * DAY_S)[0] for phone in range(3)}
    assert len(begins) == 3


@pytest.mark.parametrize("text", ["", "device\n1\n", HEAD, HEAD + "1,0,9,5,5\n"])
def test_a_file_without_windows_is_refused(tmp_path, text):
    path = tmp_path / "windows.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match="windows"):
        TracedAvailability(path, 1, np.random.default_rng(0))


@pytest.mark.parametrize("row", ["1,0,9,x,9", "1,0,9,5", "1,0,9,5,4", "1,0,9,5,10", "1,0,9,5,nan"])
def test_a_row_that_is_no_window_is_refused_with_its_line(tmp_path, row):
    with pytest.raises(ConfigError, match="line 3"):
        TracedAvailability(trace(tmp_path, "1,0,9,2,3", row), 1, np.random.default_rng(0))


@pytest.mark.skipif(not REAL.exists(), reason=RECORDED)
def test_the_real_traces_are_those_that_were_measured():
    share = share_free_by_hour(TracedAvailability(REAL, 710, np.random.default_rng(0)), 710)
    assert 0.08 < share.mean() < 0.11
    assert share.max() / share.min() > 1.8
