"""A real program under a real IBus takes every key at once, whatever listens where the suggester should."""

import contextlib
import os
import socket
import time
from threading import Thread

import pytest

from tests.edge_agent.desktop.desk import PROGRAMS, PYTHON, wait_for
from tests.edge_agent.desktop.desk import typing_desk as typing_desk  # a fixture
from tests.edge_agent.desktop.test_real_programs import GTK3

pytestmark = [GTK3, pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("ibus")]
SENTENCE = "how are you today my friend "
AT_ONCE_S = 5.0
"""A key that waited for the suggester would come later, even on a busy machine: the faults last for longer."""
WORDS = b'{"words": ["hello"], "version": 1, "reason": "", "prefix": "", "space_takes": false}\n'


def answer_each(connection, answer):
    while connection.recv(65_536):
        connection.sendall(answer)


def answer_late(connection):
    while connection.recv(65_536):
        time.sleep(10)
        connection.sendall(WORDS)


def flood(connection, data):
    for _ in range(1_600):  # 100 MB
        connection.sendall(data)


FAULTS = {
    "never accepts": None,
    "never answers": lambda connection: time.sleep(60),
    "late": answer_late,
    "no text": lambda connection: answer_each(connection, os.urandom(5_000) + b"\n"),
    "no answer": lambda connection: answer_each(connection, b'{"words": null, "prefix": 5}\n[]\n{}\n'),
    "100 MB": lambda connection: flood(connection, b"x" * 65_536),
    "100 MB of lines": lambda connection: flood(connection, b"\n" * 65_536),
    "closes": lambda connection: None,
}


def listen(path, serve):
    """Listen in the suggester's place; the listener."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)

    def answer(connection):
        with contextlib.suppress(OSError), connection:
            serve(connection)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                Thread(target=answer, args=(connection,), daemon=True).start()

    if serve is not None:
        Thread(target=accept, daemon=True).start()
    return listener


def test_a_program_takes_keys_at_once_whatever_the_suggester_does(typing_desk):
    desk, typed, late = typing_desk, "", []
    desk.open(PYTHON, str(PROGRAMS / "gtk3.py"), str(desk.text))
    desk.make_ready()
    desk.suggester.kill()
    for name, serve in FAULTS.items():
        with contextlib.closing(listen(desk.suggester.path, serve)) as listener:
            desk.press(*("space" if key == " " else key for key in SENTENCE))
            begun_s = time.monotonic()
            typed += SENTENCE
            wait_for(lambda: desk.shown() == typed, f"the text while the suggester has the fault: {name}")  # noqa: B023
            late += [name] if time.monotonic() - begun_s > AT_ONCE_S else []
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
    desk.suggester.start()
    desk.suggester.words = ("hello", "help")

    def offered():
        desk.press("h", "e")
        return desk.comes_to(f"{typed}he", ("hello", "help")) or desk.goes_back_to(typed)

    wait_for(offered, "words of the suggester that came back")
    assert late == []


def test_words_come_without_leaving_the_field_when_the_agent_starts_after_the_engine(typing_desk):
    desk = typing_desk
    desk.suggester.kill()
    desk.daemon.terminate()
    desk.daemon.wait()
    desk.start_ibus()
    desk.open(PYTHON, str(PROGRAMS / "gtk3.py"), str(desk.text))
    desk.make_ready()
    desk.suggester.start()

    def offered():
        desk.press("h", "e")
        return desk.comes_to("he", ("hello", "help")) or desk.goes_back_to("")

    wait_for(offered, "words")
