import pytest

from nightjar.host.retrying import GIVE_UP_AFTER_S, STORE_AGAIN, keep_trying
from nightjar.wire.errors import UnavailableError


class Disk:
    """Refuses so many times."""

    def __init__(self, refusals):
        self.left, self.waits, self.said = refusals, [], []

    def store(self):
        if self.left:
            self.left -= 1
            raise UnavailableError("no room")
        return "stored"

    def keep_trying(self, pause=None):
        def refused(error, wait_s):
            self.said.append((str(error), wait_s))

        return keep_trying(self.store, pause or self.waits.append, refused)


def test_what_works_at_once_waits_for_nothing():
    disk = Disk(0)
    assert (disk.keep_trying(), disk.waits, disk.said) == ("stored", [], [])


def test_it_waits_longer_and_longer_and_says_each_refusal():
    disk = Disk(8)
    assert disk.keep_trying() == "stored"
    assert disk.waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert disk.said == [("no room", wait_s) for wait_s in disk.waits]


def test_it_gives_up_after_ten_minutes_of_waiting():
    disk = Disk(10_000)
    with pytest.raises(UnavailableError, match="no room"):
        disk.keep_trying()
    assert GIVE_UP_AFTER_S <= sum(disk.waits) < GIVE_UP_AFTER_S + STORE_AGAIN.most_s


@pytest.mark.parametrize("refusals", [1, 2])
def test_who_is_asked_to_end_tries_once_more(refusals):
    disk = Disk(refusals)
    if refusals == 1:
        assert disk.keep_trying(lambda _: True) == "stored"
    else:
        with pytest.raises(UnavailableError):
            disk.keep_trying(lambda _: True)
    assert disk.left == 0


def test_another_error_is_not_tried_again():
    def fail():
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it has no text
        keep_trying(fail, pytest.fail, pytest.fail)
