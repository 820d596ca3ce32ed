"""What is owed happens in its order, once, as soon as it can be stored; and is said twice in all."""

import pytest
import structlog

from nightjar.edge_agent.upkeep.durable_retry import DurableRetry
from nightjar.host.retrying import STORE_AGAIN
from nightjar.wire.errors import LocalProtocolError, UnavailableError


class Clock:
    def __init__(self):
        self.time_s = 100.0

    def monotonic_s(self):
        return self.time_s


class Disk:
    """Full until somebody makes room."""

    def __init__(self):
        self.full, self.stored = True, []

    def store(self, what):
        if self.full:
            raise UnavailableError("full")
        self.stored.append(what)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def unstored(clock):
    return DurableRetry(clock, lambda: 1.0, structlog.get_logger())


def test_what_is_owed_happens_in_its_order_when_there_is_room(unstored, clock):
    disk = Disk()
    with pytest.raises(UnavailableError):
        unstored.run_until_stored(lambda: disk.store("first"))
    unstored.run_until_stored(lambda: disk.store("second"))  # not tried: the first one's turn has not come
    assert unstored.due_at_s == clock.time_s + STORE_AGAIN.first_s
    disk.full = False
    unstored.catch_up()
    assert disk.stored == []
    clock.time_s = unstored.due_at_s
    unstored.catch_up()
    assert disk.stored == ["first", "second"]
    assert unstored.due_at_s is None
    unstored.catch_up()
    assert disk.stored == ["first", "second"]


def test_it_waits_longer_each_time(unstored, clock):
    waits, disk = [], Disk()
    with pytest.raises(UnavailableError):
        unstored.run_until_stored(lambda: disk.store("it"))
    for _ in range(8):
        waits.append(unstored.due_at_s - clock.time_s)
        clock.time_s = unstored.due_at_s
        with pytest.raises(UnavailableError):
            unstored.catch_up()
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_full_disk_is_said_once_and_its_end_once(unstored):
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            with unstored.contained():
                raise UnavailableError("no room")
        unstored.stored()
        unstored.stored()
        with unstored.contained():
            raise LocalProtocolError("cannot happen")
    assert [line["event"] for line in lines] == ["not_stored", "stored_again", "illegal_event"]
    assert lines[1]["failed_tries"] == 5


def test_a_defect_goes_on_its_way(unstored):
    with pytest.raises(ZeroDivisionError), unstored.contained():
        _ = 1 / 0
