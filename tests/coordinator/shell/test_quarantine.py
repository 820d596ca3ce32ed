"""Messages that end the process: who is blamed, who is condemned, and what a kill leaves of the record."""

import itertools
import os

import pytest

from coordinator.inbox import MessageArrived
from coordinator.ports import Standing
from coordinator.shell.quarantine import MOST_DEATHS, TOGETHER, FileQuarantine
from wire.errors import UnavailableError

DEADLY = MessageArrived("nightjar/1/demo/up/0/a/report", b"deadly" * 1000 + b"crc1")
OTHER = MessageArrived("nightjar/1/demo/up/0/b/report", b"deadly" * 1000 + b"crc1")
CHANGED = MessageArrived("nightjar/1/demo/up/0/a/report", b"deadly" * 1000 + b"crc2")


@pytest.fixture
def start(tmp_path):
    """Starts a process: what the former one had in hand at its end is in the folder."""
    opened = []

    def open_one() -> FileQuarantine:
        opened.append(FileQuarantine(tmp_path / "quarantine"))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def take(quarantine: FileQuarantine, message: MessageArrived) -> Standing:
    """Have a message in hand; what is known of it."""
    ((_, standing),) = itertools.islice(quarantine.hand_out([message]), 1)
    return standing


def test_what_was_handled_is_clear(start):
    one = start()
    take(one, DEADLY)
    one.let_go()
    assert start()._deaths == {}
    assert start()._standing(DEADLY) is Standing.CLEAR


def test_of_two_only_the_one_that_was_in_hand_last_has_a_death_on_its_account(start):
    for _ in range(MOST_DEATHS - 1):
        take(start(), DEADLY)
    one = start()
    take(one, DEADLY)
    take(one, OTHER)
    assert list(start()._deaths.values()) == [1]
    assert start()._standing(DEADLY) is Standing.CLEAR


def test_what_is_survived_begins_anew(start):
    for _ in range(MOST_DEATHS - 1):
        take(start(), DEADLY)
    one = start()
    take(one, DEADLY)
    one.let_go()
    assert start()._deaths == {}


def test_what_ends_process_after_process_is_condemned_and_kept_until_a_person_deletes_it(start, tmp_path):
    for _ in range(MOST_DEATHS):
        one = start()
        assert one._standing(DEADLY) is Standing.CLEAR
        take(one, DEADLY)
    one = start()
    assert [one._standing(m) for m in (DEADLY, OTHER, CHANGED)] == [Standing.CONDEMNED, Standing.CLEAR, Standing.CLEAR]
    path = tmp_path / "quarantine" / one.keep(DEADLY).rsplit("/", 1)[1]
    assert path.read_bytes() == DEADLY.topic.encode() + b"\n" + DEADLY.payload
    assert one._standing(DEADLY) is Standing.CONDEMNED, "as long as refusing it does no harm"
    again = start()
    assert again._standing(DEADLY) is Standing.CONDEMNED
    take(again, DEADLY)
    assert start()._standing(DEADLY) is Standing.UNTOUCHABLE, "even refusing it ended the process"
    path.unlink()
    assert start()._standing(DEADLY) is Standing.CLEAR


def test_only_the_message_that_was_in_hand_is_blamed(start):
    for _ in range(MOST_DEATHS):
        one = start()
        take(one, OTHER)
        one.let_go()
        take(one, DEADLY)
    one = start()
    assert (one._standing(DEADLY), one._standing(OTHER)) == (Standing.CONDEMNED, Standing.CLEAR)


def test_of_those_that_were_written_down_together_each_is_suspected_once_and_then_alone(start):
    crowd = [MessageArrived("topic", bytes([number])) for number in range(TOGETHER + 3)]
    one = start()
    handed = one.hand_out(crowd)
    for _ in range(TOGETHER // 2):
        next(handed)
    again = start()
    assert list(again._deaths.values()) == [1] * TOGETHER, "nobody knows which of them it was"
    handed = again.hand_out(crowd)
    for _ in range(3):
        assert next(handed)[1] is Standing.CLEAR
    third = start()
    assert [third._deaths.get(message.fingerprint[:32]) for message in crowd[:4]] == [None, None, 2, 1], (
        "those before it were survived, and it was alone in hand"
    )
    assert [standing for _, standing in third.hand_out(crowd)] == [Standing.CLEAR] * len(crowd)
    third.let_go()
    assert start()._deaths == {}


def test_what_is_suspected_is_alone_in_hand_in_the_middle_of_others_too(start):
    take(start(), DEADLY)
    one = start()
    others = [MessageArrived("topic", bytes([number])) for number in range(4)]
    handed = one.hand_out([*others[:2], DEADLY, *others[2:]])
    for _ in range(3):
        next(handed)
    assert list(start()._deaths.values()) == [2]


def test_those_that_never_come_again_are_forgotten(start, monkeypatch):
    monkeypatch.setattr("coordinator.shell.quarantine.MOST_REMEMBERED", 2)
    for number in range(4):
        take(start(), MessageArrived("topic", bytes([number])))
    assert len(start()._deaths) == 2


@pytest.mark.parametrize("damage", [b"", b"\1", b"\5\0\0\0abc", bytes(64)])
def test_a_record_that_was_cut_blames_nobody_wrongly_and_does_not_stop_the_start(start, tmp_path, damage):
    take(start(), DEADLY)
    (tmp_path / "quarantine" / "in-hand").write_bytes(damage)
    (tmp_path / "quarantine" / "deaths.json").write_bytes(b"{cut")
    assert start()._standing(DEADLY) is Standing.CLEAR


def test_a_folder_that_cannot_be_used_is_said(tmp_path):
    (tmp_path / "quarantine").write_bytes(b"a file")
    with pytest.raises(UnavailableError, match="quarantine"):
        FileQuarantine(tmp_path / "quarantine")


def test_a_full_disk_is_said_and_nobody_is_blamed_for_it(start, tmp_path, monkeypatch):
    one = start()
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", _no_space)
        with pytest.raises(UnavailableError, match="free some space"):
            take(one, DEADLY)
    one.let_go()
    assert start()._standing(DEADLY) is Standing.CLEAR


def _no_space(*_):
    raise OSError(28, "No space left on device")
