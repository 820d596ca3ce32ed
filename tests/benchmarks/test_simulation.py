import pytest

from nightjar.benchmarks.simulation import measure


@pytest.mark.slow
def test_a_fleet_is_measured_without_faults_and_with_all():
    quiet, faulty = measure((60,))
    assert (quiet["faults"], faulty["faults"]) == ("none", "all")
    for row in (quiet, faulty):
        assert (row["reports_lost"], row["reports_counted_twice"]) == (0, 0)
        assert row["processor_seconds"] > 0
