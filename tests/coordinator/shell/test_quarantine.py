"""Messages that end the process: suspects, the condemned, and what a kill leaves of the record."""

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
    one.take([DEADLY, OTHER])
    one.let_go()
    assert start().judge(DEADLY) is Standing.CLEAR


def test_what_was_in_hand_at_the_end_is_suspect_until_it_is_survived(start):
    start().take([DEADLY, OTHER])
    one = start()
    assert [one.judge(m) for m in (DEADLY, OTHER, CHANGED)] == [Standing.SUSPECT, Standing.SUSPECT, Standing.CLEAR]
    one.take([OTHER])
    one.let_go()
    assert (one.judge(OTHER), one.judge(DEADLY)) == (Standing.CLEAR, Standing.SUSPECT)
    again = start()
    assert (again.judge(OTHER), again.judge(DEADLY)) == (Standing.CLEAR, Standing.SUSPECT)


def test_what_ends_process_after_process_is_condemned_and_kept_until_a_person_deletes_it(start, tmp_path):
    for _ in range(MOST_DEATHS):
        one = start()
        assert one.judge(DEADLY) in {Standing.CLEAR, Standing.SUSPECT}
        one.take([DEADLY])
    one = start()
    assert one.judge(DEADLY) is Standing.CONDEMNED
    path = tmp_path / "quarantine" / one.keep(DEADLY).rsplit("/", 1)[1]
    assert path.read_bytes() == DEADLY.topic.encode() + b"\n" + DEADLY.payload
    assert one.judge(DEADLY) is Standing.CONDEMNED, "as long as refusing it does no harm"
    again = start()
    assert again.judge(DEADLY) is Standing.CONDEMNED
    again.take([DEADLY])
    assert start().judge(DEADLY) is Standing.UNTOUCHABLE, "even refusing it ended the process"
    path.unlink()
    assert start().judge(DEADLY) is not Standing.CONDEMNED


def test_innocents_that_were_in_hand_beside_it_are_cleared_one_by_one(start):
    start().take([DEADLY, OTHER])
    for _ in range(MOST_DEATHS):
        one = start()
        for message in (OTHER, DEADLY):  # as the driver does: each alone
            if one.judge(message) is Standing.CONDEMNED:
                break
            one.take([message])
            if message is DEADLY:
                break
            one.let_go()
    one = start()
    assert (one.judge(DEADLY), one.judge(OTHER)) == (Standing.CONDEMNED, Standing.CLEAR)


@pytest.mark.parametrize("damage", [b"", b"\1", b"\5\0\0\0abc", b"\0\0\0\0" + bytes(64)])
def test_a_record_that_was_cut_blames_nobody_wrongly_and_does_not_stop_the_start(start, tmp_path, damage):
    start().take([DEADLY])
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
            one.take([DEADLY])
    one.let_go()
    assert start().judge(DEADLY) is Standing.CLEAR


def _no_space(*_):
    raise OSError(28, "No space left on device")
