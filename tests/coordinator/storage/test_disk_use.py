"""How full the disk is, and when it will be full."""

from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.storage.disk_use import DAY_S, HOUR_S, KEPT, DiskPoint, forecast, measured, with_point

POINTS = st.lists(
    st.builds(DiskPoint, st.floats(0, 2e9), st.integers(0, 10**13), st.integers(0, 10**13)), min_size=1, max_size=50
)


@given(POINTS)
def test_whatever_the_clock_did_there_is_a_forecast_without_negative_figures(points):
    found = forecast(points)
    assert found.growth_bytes_a_day is None or found.growth_bytes_a_day >= 0
    assert found.full_in_days is None or found.full_in_days >= 0
    assert found.in_words()


def test_one_measurement_an_hour_is_kept_and_no_more_than_a_week_and_a_day():
    points = ()
    for minute in range(0, 60 * 24 * 30, 5):
        points = with_point(points, DiskPoint(60.0 * minute, minute, 10**12))
    assert len(points) == KEPT
    assert points[-1].at_s - points[0].at_s == HOUR_S * (KEPT - 1)


def test_the_growth_of_others_on_the_same_disk_fills_it_too():
    points = [DiskPoint(0.0, 10**9, 10**10), DiskPoint(DAY_S, 10**9, 9 * 10**9)]
    assert forecast(points).full_in_days == 9.0
    assert forecast(points).scarce


def test_a_folder_of_steady_size_is_never_full():
    assert forecast([DiskPoint(0.0, 10**9, 10**10), DiskPoint(DAY_S, 10**9, 10**10)]).full_in_days is None


def test_a_sparse_file_counts_as_what_it_takes(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 10_000)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10**9)
    assert 10_000 <= measured(tmp_path, 0.0).used_bytes < 10**6
