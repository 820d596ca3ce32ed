"""Two weeks of a phone under a virtual clock: its store keeps to its caps, nothing grows, and it trains when it may."""

import gc
import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from nightjar.edge_agent.core.eligibility import Condition
from nightjar.edge_agent.core.lifecycle import CheckedIn, Preparing, Reporting, Training
from nightjar.edge_agent.core.stored import Caps
from nightjar.edge_agent.emulator.day import DAY_S, DEFAULT_DAY, state_at
from nightjar.edge_agent.emulator.phone import PlayedPhone, ScriptedConditions
from nightjar.edge_agent.shell.probes import Probes
from nightjar.edge_agent.shell.probes.user_preferences import UserPreferences
from nightjar.wire.messages import CodecChoice, Receipt, Verdict
from tests.edge_agent import fakes

STEP_S = 60.0
QUIET = "02:00-03:30"
CAPS = Caps(messages=150, total_bytes=6_000, age_s=3 * DAY_S)
WARM_DAYS, DAYS = 4, 14
LETTERS = str.maketrans("0123456789", "abcdefghij")
FIGURES = str.maketrans("abcdefghij", "0123456789")


@dataclass(frozen=True)
class Measured:
    resident_bytes: int
    objects: int
    disk_bytes: int
    open_files: int
    threads: int


CODEC = CodecChoice(name="topk-8", density=0.1)


class Life(fakes.Phone):
    """A phone whose day is scripted, a person who types, and a coordinator that always wants it."""

    def __init__(self, folder):
        super().__init__(folder)
        self.database.wipe()
        self.round = 0
        self.trained_at_s = []

    def start(self):
        super().start()
        self.played = PlayedPhone(partial(state_at, DEFAULT_DAY, 7), 1.0, 0.0, 1.7e9 + 1000.0, self.clock.wall_s)
        self.emulated = ScriptedConditions(self.played, 0.3)
        wishes = UserPreferences(self.database.learning_paused, (QUIET,), self.played.minute)
        self.conditions.read = Probes((wishes, self.emulated)).read

    def live(self, moment):
        self.pass_time(STEP_S)
        if self.played.state().in_use and moment % 7 == 0:
            self.database.add(f"somebody typed this at {str(moment).translate(LETTERS)} of a life")
        match self.driver.state:
            case CheckedIn():
                self.round += 1
                self.be_assigned(self.round, codec=CODEC, report_deadline_s=585.0)
            case Preparing():
                self.work()
            case Training():
                self.trained_at_s.append(self.clock.now_s - 1000.0)
                self.work()
            case Reporting(number, attempt):
                verdict = Verdict.LATE if number % 5 == 0 else Verdict.ACCEPTED
                self.hear(Receipt(round=number, attempt=attempt, verdict=verdict, retry_after_s=600))
            case _:
                pass
        # What a fake keeps for the tests is no growth of the agent.
        self.transport.sent.clear()
        self.transport.raw.clear()
        self.programs.clear()
        self.artifacts.fetched.clear()

    def measure(self):
        gc.collect()
        return Measured(
            int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
            len(gc.get_objects()),
            sum(path.stat().st_size for path in self.folder.glob("agent.db*")),
            len(list(Path("/proc/self/fd").iterdir())),
            threading.active_count(),
        )


class Lived(NamedTuple):
    before: Measured
    after: Measured
    trained_at_s: list[float]
    idle_source: str
    reports_sent: int


def live_two_weeks(folder: Path) -> Lived:
    fakes.CAPS = CAPS
    life = Life(folder)
    life.driver.begin()
    for moment in range(int(DAYS * DAY_S / STEP_S)):
        life.live(moment)
        if moment % 60 == 0:
            texts = life.database.texts()
            assert len(texts) <= CAPS.messages
            assert sum(len(text.encode()) for text in texts) <= CAPS.total_bytes
            oldest = min((int(text.split()[4].translate(FIGURES)) for text in texts), default=moment)
            assert (moment - oldest) * STEP_S <= CAPS.age_s + STEP_S
        if moment == WARM_DAYS * DAY_S / STEP_S:
            before = life.measure()
    after = life.measure()
    source = life.emulated()[Condition.IDLE].source
    return Lived(before, after, life.trained_at_s, source, life.database.tally().reports_sent)


@pytest.mark.long
def test_two_weeks(tmp_path):
    # In a process of its own: what other tests leave behind in this one would be measured with it.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as own:
        before, after, trained_at_s, idle_source, reports_sent = own.submit(live_two_weeks, tmp_path).result()

    assert len(trained_at_s) > 10 * DAYS
    for trained_s in trained_at_s:
        # Eligible at that moment and for the two minutes before it, and never in the quiet hours.
        for moment_s in (trained_s, trained_s - STEP_S, trained_s - 2 * STEP_S):
            phone = state_at(DEFAULT_DAY, 7, moment_s)
            assert phone.charging
            assert phone.wifi
            assert not phone.in_use
            assert phone.battery >= 0.3
        assert not 120 <= trained_s % DAY_S / 60 < 210
    assert idle_source == "emulated day"

    assert after.objects < before.objects + 500
    assert after.resident_bytes < before.resident_bytes + 10_000_000
    assert after.disk_bytes <= 1.3 * before.disk_bytes + 50_000
    assert after.open_files <= before.open_files
    assert after.threads <= before.threads
    assert reports_sent > 8 * DAYS
