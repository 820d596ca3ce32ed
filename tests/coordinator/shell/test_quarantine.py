"""Messages that end the process: who is blamed, who is condemned, and what a kill leaves of the record."""

import os

import pytest

from coordinator.inbox import MessageArrived
from coordinator.ports import Standing
from coordinator.shell.quarantine import MOST_DEATHS, FileQuarantine
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


def test_what_was_handled_is_clear(start):
    one = start()
    one.take(DEADLY)
    one.let_go()
    assert start()._deaths == {}
    assert start().judge(DEADLY) is Standing.CLEAR


def test_of_two_only_the_one_that_was_in_hand_last_has_a_death_on_its_account(start):
    for _ in range(MOST_DEATHS - 1):
        start().take(DEADLY)
    one = start()
    one.take(DEADLY)
    one.take(OTHER)
    assert list(start()._deaths.values()) == [1]
    assert start().judge(DEADLY) is Standing.CLEAR


def test_what_is_survived_begins_anew(start):
    for _ in range(MOST_DEATHS - 1):
        start().take(DEADLY)
    one = start()
    one.take(DEADLY)
    one.let_go()
    assert start()._deaths == {}


def test_what_ends_process_after_process_is_condemned_and_kept_until_a_person_deletes_it(start, tmp_path):
    for _ in range(MOST_DEATHS):
        one = start()
        assert one.judge(DEADLY) is Standing.CLEAR
        one.take(DEADLY)
    one = start()
    assert [one.judge(m) for m in (DEADLY, OTHER, CHANGED)] == [Standing.CONDEMNED, Standing.CLEAR, Standing.CLEAR]
    path = tmp_path / "quarantine" / one.keep(DEADLY).rsplit("/", 1)[1]
    assert path.read_bytes() == DEADLY.topic.encode() + b"\n" + DEADLY.payload
    assert one.judge(DEADLY) is Standing.CONDEMNED, "as long as refusing it does no harm"
    again = start()
    assert again.judge(DEADLY) is Standing.CONDEMNED
    again.take(DEADLY)
    assert start().judge(DEADLY) is Standing.UNTOUCHABLE, "even refusing it ended the process"
    path.unlink()
    assert start().judge(DEADLY) is Standing.CLEAR


def test_only_the_message_that_was_in_hand_is_blamed(start):
    for _ in range(MOST_DEATHS):
        one = start()
        one.take(OTHER)
        one.let_go()
        one.take(DEADLY)
    one = start()
    assert (one.judge(DEADLY), one.judge(OTHER)) == (Standing.CONDEMNED, Standing.CLEAR)


def test_those_that_never_come_again_are_forgotten(start, monkeypatch):
    monkeypatch.setattr("coordinator.shell.quarantine.MOST_REMEMBERED", 2)
    for number in range(4):
        start().take(MessageArrived("topic", bytes([number])))
    assert len(start()._deaths) == 2


@pytest.mark.parametrize("damage", [b"", b"\1", b"\5\0\0\0abc", bytes(64)])
def test_a_record_that_was_cut_blames_nobody_wrongly_and_does_not_stop_the_start(start, tmp_path, damage):
    start().take(DEADLY)
    (tmp_path / "quarantine" / "in-hand").write_bytes(damage)
    (tmp_path / "quarantine" / "deaths.json").write_bytes(b"{cut")
    assert start().judge(DEADLY) is Standing.CLEAR


def test_a_folder_that_cannot_be_used_is_said(tmp_path):
    (tmp_path / "quarantine").write_bytes(b"a file")
    with pytest.raises(UnavailableError, match="quarantine"):
        FileQuarantine(tmp_path / "quarantine")


def test_a_full_disk_is_said_and_nobody_is_blamed_for_it(start, tmp_path, monkeypatch):
    one = start()
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", _no_space)
        with pytest.raises(UnavailableError, match="free some space"):
            one.take(DEADLY)
    one.let_go()
    assert start().judge(DEADLY) is Standing.CLEAR


def _no_space(*_):
    raise OSError(28, "No space left on device")
