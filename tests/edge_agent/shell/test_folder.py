import os
import stat

import pytest

from nightjar.edge_agent.shell.folder import own_folder, running_agent
from nightjar.wire.errors import ConfigError


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_is_its_owners_alone(tmp_path):
    with own_folder(tmp_path / "a" / "data"):
        assert mode(tmp_path / "a" / "data") == 0o700


def test_a_folder_that_others_could_read_is_closed(tmp_path):
    (tmp_path / "data").mkdir(mode=0o755)
    with own_folder(tmp_path / "data"):
        assert mode(tmp_path / "data") == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="this machine or user may not give a folder to somebody else")
def test_somebody_elses_folder_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    os.chown(tmp_path / "data", 12345, 12345)
    with pytest.raises(ConfigError, match="belongs to another user"), own_folder(tmp_path / "data"):
        pass


def test_a_second_agent_is_refused_and_the_first_is_known(tmp_path):
    assert running_agent(tmp_path) is None
    with own_folder(tmp_path):
        assert running_agent(tmp_path) == os.getpid()
        with pytest.raises(ConfigError, match="another agent is running"), own_folder(tmp_path):
            pass
        assert running_agent(tmp_path) == os.getpid()
    assert running_agent(tmp_path) is None


def test_a_file_in_the_way_is_said(tmp_path):
    (tmp_path / "data").write_text("")
    with pytest.raises(ConfigError, match="data_dir: expected a folder"), own_folder(tmp_path / "data"):
        pass
