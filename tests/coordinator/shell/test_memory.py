import gc
import platform

import pytest

from coordinator.shell.memory import keep_freed_memory, spare_the_collector


@pytest.fixture
def collector():
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_is_there_at_the_start_is_never_looked_at_again(collector):
    spare_the_collector()
    assert gc.get_freeze_count() > 1000
    assert gc.get_threshold()[0] > 700


def test_only_glibc_keeps_what_is_freed():
    assert keep_freed_memory() == (platform.libc_ver()[0] == "glibc")
