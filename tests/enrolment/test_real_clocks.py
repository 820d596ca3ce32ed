"""Real processes whose wall clocks are wrong for a while, all of them at once: nothing is lost, and all goes on.

A coordinator with its broker and certificates, and two agents that train and are typed on: a phone whose kernel never
says that it is synchronised, and a board whose kernel says so while its clock is right. Running, each of the three gets
each wrong time; over a restart each wrong time is one of theirs. Which times are believed, and the rest of the table,
is tested in ``tests/coordinator/test_wrong_clocks.py``.
"""

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time

import pytest
from cryptography import x509

from nightjar.coordinator.tls.files import SERVER_DAYS
from nightjar.edge_agent.enrolment.enrolling import enrol
from nightjar.host.system_clock import read_clock
from nightjar.wire.errors import UnavailableError
from tests.brokers import NEEDS_MOSQUITTO
from tests.edge_agent.conftest import exported  # noqa: F401 - a fixture
from tests.enrolment.world import ROOT, World
from tests.faults.world import accepted_by_receipt
from tests.host.test_trusted_time import DAY_S, WRONG
from tests.processes import end
from tests.wrong_clocks import ProcessClock, wrong_clock_library

pytestmark = [
    *(pytest.mark.long, pytest.mark.broker, pytest.mark.tflite, pytest.mark.tensorflow),
    pytest.mark.timeout(900),  # a minute and a half on a quiet machine, five beside ten others
]

WITHIN_S = 60.0
"""What is promised of a correction; what rounds take on a busy machine is added twice, as what restarts takes, too."""
PATIENCE_S = 300.0
WRONG_FOR_S = 3.0
LETTERS = str.maketrans("0123456789", "abcdefghij")


class Agent:
    """An agent with a person who types."""

    def __init__(self, world, clock, name):
        self.clock, self.name, self.typed = clock, name, []
        self.data_dir, self.log_path = world.folder / name, world.folder / f"{name}.log"
        enrol(self.data_dir, world.claim(f"for-{name}", device=name))
        self.config = world.folder / f"{name}.toml"
        self.config.write_text(
            f'data_dir = "{name}"\n[conditions]\nhysteresis_s = 0.1\npoll_s = 0.1\nidle_after_s = 0.5\n'
            "[keyboard]\nenabled = true\nport = 0\n[limits]\ncohort = 1\ndensity = 1.0\nwritten_mb_per_day = 100000\n"
            "[emulator]\nseed = 3\n[emulator.day]\njitter_minutes = 0\ninterruptions_per_hour = 0\n"
            "[[emulator.day.segments]]\nfrom_hour = 0\ncharging = true\nin_use = false\nwifi = true\nbattery = 1.0\n"
        )
        self.process = None

    def start(self):
        command = [sys.executable, "-m", "nightjar.edge_agent", "run", "--config", str(self.config)]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stderr=log, env=self.clock.environment)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            end(self.process, PATIENCE_S)

    def types(self, text):
        """Through the socket that programs use; once its agent has started."""
        asked = json.dumps({"do": "learn", "text": text, "program": "letters"}).encode() + b"\n"
        with soon(lambda: self._connected(), "the suggester listens") as line:
            line.sendall(asked)
            assert json.loads(line.makefile("rb").readline())["kept"]
        self.typed.append(text)

    def _connected(self):
        line = socket.socket(socket.AF_UNIX)
        line.settimeout(PATIENCE_S)
        try:
            folder = os.open(self.data_dir / "suggester", os.O_PATH)
            try:
                line.connect(f"/proc/self/fd/{folder}/socket")
            finally:
                os.close(folder)
        except OSError:
            line.close()
            return None
        return line

    def log(self):
        return self.log_path.read_text()

    def kept(self, query):
        return rows(self.data_dir / "agent.db", query)


def rows(path, query):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)) as database:
        return database.execute(query).fetchall()


def soon(answer, what, timeout_s=PATIENCE_S):
    deadline = time.monotonic() + timeout_s
    while True:
        if found := answer():
            return found
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.1)


class Fleet:
    """The processes, each with a clock of its own."""

    def __init__(self, folder, kind, model):
        library = wrong_clock_library(folder)
        self.clock = ProcessClock(library, folder / "coordinator.clock")
        self.world = World(folder, kind, model=model)
        self.world.environment = self.clock.environment
        self.board_clock = ProcessClock(library, folder / "board.clock", synchronises=True)
        self.phone_clock = ProcessClock(library, folder / "phone.clock")

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.world)
            pairs = {"phone": self.phone_clock, "board": self.board_clock}
            self.agents = [Agent(self.world, clock, name) for name, clock in pairs.items()]
            for agent in self.agents:
                stack.callback(agent.stop)
                agent.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def set_clocks(self, coordinator_s, phone_s, board_s):
        self.clock.set(coordinator_s)
        self.phone_clock.set(phone_s)
        self.board_clock.set(board_s)

    def restart(self):
        for agent in self.agents:
            agent.stop()
        self.world.stop()
        before = self.starts()
        self.world.start(waits=False)  # it is not healthy before its clock is right
        for agent in self.agents:
            agent.start()
        soon(lambda: self.starts() > before, "the coordinator has started")

    def starts(self):
        return self.world.log().count("event=coordinator_ready ")

    def asked(self, query):
        return rows(self.world.config.data_dir / "coordinator.sqlite", query)

    def version(self):
        return self.asked("SELECT max(version) FROM versions")[0][0]


@pytest.mark.parametrize(
    ("restarts", "kind", "turns"),
    [pytest.param(False, "mosquitto", range(6), marks=NEEDS_MOSQUITTO), (True, "embedded", (0, 3))],
    ids=["running", "restarted"],
)
def test_nothing_is_lost_by_wrong_clocks_and_rounds_go_on_within_a_minute_of_their_correction(
    tmp_path,
    exported,  # noqa: F811 - the fixture
    restarts,
    kind,
    turns,
):
    began_s = read_clock().wall_s
    with Fleet(tmp_path, kind, exported.model.weights.parent) as fleet:
        for agent in fleet.agents:
            for number in range(20):
                agent.types(f"the cat sat on the mat and the dog saw {chr(97 + number)} there")
        soon(lambda: fleet.version() >= 1, "a round")
        begun_s = time.monotonic()
        soon(lambda: fleet.version() >= 3, "rounds")
        usual_s = time.monotonic() - begun_s
        times = list(WRONG)
        for number in turns:
            name, *others = [times[(number + further) % len(times)] for further in (0, 2, 4)]
            fleet.set_clocks(WRONG[name], *(WRONG[other] for other in others))
            if restarts:
                fleet.restart()
            for agent in fleet.agents:
                agent.types(f"while the clock said {name}".translate(LETTERS))
            until_s = time.monotonic() + WRONG_FOR_S
            if not restarts:
                claim = fleet.world.claim(f"while-{number}", device=f"while-{number}")
                with pytest.raises(UnavailableError):
                    enrol(tmp_path / f"while-{number}", claim)
            while time.monotonic() < until_s:
                time.sleep(0.1)
            fleet.set_clocks(0.0, 0.0, 0.0)
            before = fleet.version()
            begun_s = time.monotonic()
            soon(lambda before=before: fleet.version() > before, f"a version after {name}", WITHIN_S + 2 * usual_s)
            print(f"{name}: the next version {time.monotonic() - begun_s:.1f} s after the correction")
        if not restarts:
            assert enrol(tmp_path / f"while-{number}", claim).anew, "what waited goes on"
        for agent in fleet.agents:
            agent.stop()
        now_s = read_clock().wall_s

        for agent in fleet.agents:
            assert [text for (text,) in agent.kept("SELECT text FROM examples ORDER BY id")] == agent.typed
            ((trusted,),) = agent.kept("SELECT value FROM facts WHERE name = 'trusted'")
            assert began_s < json.loads(trusted)["signed_s"] <= now_s, "the newest order"
            assert "Traceback" not in agent.log()
        counted = set(fleet.asked("SELECT round, device FROM reports"))
        assert accepted_by_receipt(*fleet.agents) == counted
        created = [created_s for (created_s,) in fleet.asked("SELECT created_s FROM versions ORDER BY version")]
        assert began_s < created[0]
        assert created == sorted(created)
        assert created[-1] <= now_s
        for (expires_s,) in fleet.asked("SELECT expires_s FROM credentials WHERE certificate != ''"):
            assert signed_now(expires_s, fleet.world.config.enrolment.device_days, now_s)
        for path in (fleet.world.config.data_dir / "server").glob("*.pem"):
            if b"BEGIN CERTIFICATE" in path.read_bytes():
                served = x509.load_pem_x509_certificates(path.read_bytes())[0]
                assert signed_now(served.not_valid_after_utc.timestamp(), SERVER_DAYS, now_s)
        assert "Traceback" not in fleet.world.log()


def signed_now(expires_s, life_days, now_s):
    return now_s - 2 * DAY_S < expires_s - life_days * DAY_S <= now_s


@pytest.mark.parametrize("kind", ["embedded", pytest.param("mosquitto", marks=NEEDS_MOSQUITTO)])
@pytest.mark.parametrize("wrong", ["1970", "20 years ahead"])
def test_a_coordinator_whose_clock_was_wrong_at_its_first_start_needs_nobody(tmp_path, wrong, kind):
    """Proven before: its authority was valid in those years only, so that no device ever trusted it."""
    clock = ProcessClock(wrong_clock_library(tmp_path), tmp_path / "clock", synchronises=True)
    world = World(tmp_path, kind)
    world.environment = clock.environment
    clock.set(WRONG[wrong])
    try:
        world.start(waits=False)
        soon(lambda: "event=coordinator_ready " in world.log(), "it starts")
        clock.set(0.0)
        soon(world.healthy, "it is healthy", WITHIN_S)
        assert world.enrolled("later").request("GET", "/api/v1/enrolment/self").status == 200
    finally:
        world.stop()
