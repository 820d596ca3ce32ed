import pytest

from edge_agent.emulator.phone import PlayedPhone, recorded
from wire.errors import ConfigError

HEAD = "device,trace_start_s,trace_end_s,window_start_s,window_end_s\n"
ROWS = "1,0,172800,3600,7200\n1,0,172800,90000,93600\n2,0,86400,0,600\n"


@pytest.fixture
def windows(tmp_path):
    path = tmp_path / "windows.csv"
    path.write_text(HEAD + ROWS)
    return path


@pytest.mark.parametrize(
    ("seed", "hour", "free"),
    [
        (0, 1.5, True),
        (0, 0.5, False),
        (0, 25.5, True),
        (0, 49.5, True),
        (1, 0.1, True),
        (1, 24.1, True),
        (2, 1.5, True),
    ],
)
def test_a_recorded_phone_is_free_in_its_windows_and_repeats_its_days(windows, seed, hour, free):
    phone = recorded(windows, seed)(hour * 3600)
    assert (phone.charging, phone.in_use, phone.wifi) == (free, not free, free)


def test_a_file_that_is_none_is_said(tmp_path):
    with pytest.raises(ConfigError, match="no such file of availability windows"):
        recorded(tmp_path / "nowhere.csv", 0)


def test_a_clock_that_was_set_back_stays_at_the_first_moment(windows):
    moments = []
    phone = PlayedPhone(lambda s: moments.append(s) or "state", 60.0, 2.0, 5000.0, lambda: 0.0)
    assert phone.state() == "state"
    assert moments == [7200.0]
