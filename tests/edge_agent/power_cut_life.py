"""A short life of an agent, ended by SIGKILL in the middle of its n-th change of a file, for every n; then a new start.

Run as a program with ``power_cut.c`` preloaded. Each life and each new start is a fork, so Python starts once. Prints
the number of changes, and for each life that did not begin again cleanly the reason.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import structlog

from nightjar.edge_agent.shell.folder import own_folder
from nightjar.edge_agent.shell.model_files import ModelFiles
from nightjar.edge_agent.shell.probes.idle import TypingActivity
from nightjar.wire.messages import Receipt, Verdict
from tests.edge_agent.fakes import Phone, any_program, write_model
from tests.edge_agent.test_killed import DENSE, carry_on

TEXTS = ["the cat sat on the mat", "a cat"]


class Shelf:
    """Where artifacts come from."""

    def __init__(self, folder: Path) -> None:
        self.files = {hashlib.sha256(data).hexdigest(): data for data in map(Path.read_bytes, folder.glob("*/*"))}

    def fetch(self, name: str, partial: Path, limit_bytes: int, should_stop: Callable[[], bool]) -> None:
        partial.write_bytes(self.files[name])

    def hang_up(self) -> None:
        """There is no connection."""


class StoredPhone(Phone):
    """With real files for its models."""

    def __init__(self, folder: Path, shelf: Path, models) -> None:
        self.shelf = Shelf(shelf)
        self.models = models
        super().__init__(folder)

    def start(self) -> None:
        self.model = self.models[0]
        self.artifacts = ModelFiles(self.folder / "artifacts", self.shelf, any_program)
        super().start()


def live(phone: StoredPhone) -> None:
    """Everything that an agent writes."""
    with own_folder(phone.folder):
        TypingActivity(phone.folder / "typed").note()
        phone.database.add("on a mat")
        phone.database.note_own_words([("zorblax", "Zorblax")])
        phone.database.note_recall(0, 4, 1, 2)
        phone.check_in()
        for number, model in enumerate(phone.models, 1):
            phone.model = model
            phone.be_assigned(number, codec=DENSE)
            phone.work()
            phone.work()
            phone.hear(Receipt(round=number, attempt=1, verdict=Verdict.ACCEPTED, retry_after_s=1))
            for _ in range(4):
                phone.pass_time(60)
        phone.be_assigned(3, codec=DENSE)
        phone.database.pause_learning(paused=True)
        phone.database.pause_learning(paused=False)
        phone.database.wipe()


def begin_again(folder: Path, shelf: Path, models) -> None:
    """What must hold after any power cut."""
    with own_folder(folder):
        phone = StoredPhone(folder, shelf, models)
        ((sound,),) = sqlite3.connect(folder / "agent.db").execute("PRAGMA integrity_check").fetchall()
        assert sound == "ok", sound
        assert set(phone.database.texts()) <= {*TEXTS, "on a mat"}
        held = phone.artifacts.current()
        if held is not None:
            # The keyboard has a model that is whole, at once.
            for path in (held.program, held.weights, held.vocabulary):
                assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
        phone.driver.begin()
        phone.pass_time(60)
        if not phone.database.count():
            phone.database.add("the cat")
        carry_on(phone)
        assert phone.artifacts.current() is not None
        assert not list((folder / "artifacts").glob("*.part")), "a download is finished or gone"


def forked(work: Callable[[], None]) -> int:
    """Do it in a process of its own; returns what ``waitpid`` says."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    cut = ctypes.CDLL(None)
    cut.power_cut_arm.argtypes = [ctypes.c_long]
    cut.power_cut_seen.restype = ctypes.c_long
    # In memory where there is such a place: thousands of fsyncs to a disk would be most of the time.
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as name:
        shelf = Path(name) / "shelf"
        models = [write_model(shelf / str(version), version) for version in (0, 1)]
        lives = 0
        while True:
            lives += 1
            folder = Path(name) / f"life-{lives}"
            folder.mkdir(mode=0o700)

            def life(folder: Path = folder, lives: int = lives) -> None:
                cut.power_cut_arm(lives)
                live(StoredPhone(folder, shelf, models))

            ended = forked(life)
            if os.WIFEXITED(ended):
                if os.WEXITSTATUS(ended):
                    print(f"life {lives} failed by itself", flush=True)
                break
            assert os.WTERMSIG(ended) == signal.SIGKILL
            if forked(lambda folder=folder: begin_again(folder, shelf, models)):
                print(f"after a power cut at change {lives} it did not begin again", flush=True)
        print(f"{lives - 1} changes", flush=True)


if __name__ == "__main__":
    sys.exit(main())
