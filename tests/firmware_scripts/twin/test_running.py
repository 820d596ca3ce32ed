from pathlib import Path

import pytest

from nightjar.firmware_scripts.twin.running import Twin
from nightjar.wire.errors import ConfigError


def test_a_board_without_a_port_for_hands_says_so_before_it_is_switched_on():
    with pytest.raises(ConfigError, match="leave --join away"):
        _ = Twin(Path("pi"), "raspi3b").guest
    assert Twin(Path("pc"), "virt-amd64").guest is not None
