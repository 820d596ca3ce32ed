import queue
import threading

import pytest

from coordinator.config import CoordinatorConfig, TaskConfig
from coordinator.service import serve
from coordinator.shell.lock import only_one
from wire.errors import ConfigError


def test_a_second_one_is_refused_with_a_remedy(tmp_path):
    with (
        only_one(tmp_path),
        pytest.raises(ConfigError, match=r"another coordinator runs on .*--standby"),
        only_one(tmp_path),
    ):
        pass


def test_one_that_stands_by_has_it_when_the_first_ends_and_not_before(tmp_path):
    told = queue.Queue()

    def stand_by():
        told.put("waiting")
        with only_one(tmp_path, standing_by=True):
            told.put("active")

    waiting = threading.Thread(target=stand_by)
    with only_one(tmp_path):
        waiting.start()
        assert told.get(timeout=60) == "waiting"
        waiting.join(0.1)
        assert told.empty()
    assert told.get(timeout=60) == "active"
    waiting.join(60)


def test_a_standby_wants_a_broker_that_outlives_the_coordinator(tmp_path):
    config = CoordinatorConfig(task=TaskConfig(model=tmp_path), data_dir=tmp_path / "data")
    with pytest.raises(ConfigError, match=r"broker\.kind = 'external'"):
        serve(config, standby=True)
    assert not config.data_dir.exists()


def test_a_new_data_folder_is_closed_to_others(tmp_path):
    with only_one(tmp_path / "data"):
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
