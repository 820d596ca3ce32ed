import pytest

from nightjar.coordinator.storage.lock import only_one
from nightjar.wire.errors import ConfigError


def test_a_second_one_is_refused_with_a_remedy(tmp_path):
    with (
        only_one(tmp_path),
        pytest.raises(ConfigError, match=r"another coordinator runs on .*; stop it"),
        only_one(tmp_path),
    ):
        pass


def test_a_new_data_folder_is_closed_to_others(tmp_path):
    with only_one(tmp_path / "data"):
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
