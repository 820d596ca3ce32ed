"""A power cut in the middle of every change of a file in two updates: the device begins again, on a whole release."""

import pytest

from tests.power_cut import live


@pytest.mark.slow
def test_a_power_cut_at_every_change_of_a_file_of_an_update(tmp_path):
    live("tests.firmware_scripts.device.power_cut_life", tmp_path, 60)
