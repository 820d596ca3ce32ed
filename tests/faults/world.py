"""Processes for the fault tests: a broker, a coordinator and phones that can be killed and started again."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from nightjar.benchmarks.phones import PhoneSetting
from nightjar.coordinator.mqtt.broker import find_mosquitto, write_mosquitto_files
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.mqtt.listeners import Listeners
from nightjar.coordinator.rounds.round import TERMINAL, AbandonCause, Phase, Round, seat_round, seat_version
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.models.manifest import Manifest
from nightjar.simulation.demo.reading import state_from
from nightjar.wire import messages, topics
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.messages import Status
from nightjar.wire.parameters import weights_from_bytes
from tests.brokers import hang_up
from tests.coordinator.model_folder import write_model
from tests.faults.phones import step_of

ROOT = Path(__file__).parents[2]
POPULATION = Population("demo")
PATIENCE_S = 120.0
"""For a machine that does ten other things."""


def wait_until(holds: Callable[[], object], what: Callable[[], str], timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        for one in Process.begun:
            ended = one.process.poll() or 0
            assert ended <= 0, f"a process ended by itself with status {ended}:\n{one.log()[-4000:]}"
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what()}")
        time.sleep(0.05)


class Process:
    """A command that can be killed and started again; its output is appended to one log."""

    tree = ROOT
    """The checkout whose code it runs."""
    begun: ClassVar[set[Process]] = set()
    """Those that are under way: one that ends by itself with a fault ends every wait."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command, self._log_path = command, log
        self._given: tuple[int, ...] = ()
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        # Through a pipe: the process may not be able to write files.
        self.process = subprocess.Popen(
            self._command,
            cwd=self.tree,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=self._given,
        )
        self._reader = threading.Thread(target=self._keep_log, args=(self.process,), daemon=True)
        self._reader.start()
        self.starts += 1
        self.begun.add(self)

    def _environment(self) -> dict[str, str]:
        return dict(os.environ) if self.tree == ROOT else {**os.environ, "PYTHONPATH": str(self.tree)}

    def _keep_log(self, process: subprocess.Popen[bytes]) -> None:
        with self._log_path.open("ab", buffering=0) as log:
            for line in process.stdout:
                log.write(line)
        process.stdout.close()

    def kill(self) -> None:
        """``kill -9``."""
        process, reader = self.process, self._reader  # a supervisor has others as soon as this one is dead
        process.kill()
        process.wait(PATIENCE_S)
        reader.join(PATIENCE_S)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> int:
        self.begun.discard(self)
        if self.running:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.process is not None:
            self._reader.join(PATIENCE_S)
        return self.process.returncode if self.process else 0

    def log(self) -> str:
        return self._log_path.read_text() if self._log_path.exists() else ""

    def __enter__(self):
        if not self.running:
            try:
                self.start()
            except BaseException:
                self.stop()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Mosquitto(Process):
    """With the configuration that ships, or without persistence."""

    def __init__(self, folder: Path, *, persistent: bool = True) -> None:
        folder.mkdir()
        (self.port,) = free_ports(1)
        path = write_mosquitto_files(Listeners("127.0.0.1", self.port, "", ""), folder)
        self._kept = folder / "mosquitto.db"
        if not persistent:
            path.write_text(path.read_text().replace("persistence true", "persistence false"))
        super().__init__([find_mosquitto(), "-c", str(path)], folder / "log")

    def start(self) -> None:
        super().start()
        wait_until(self._answers, self.log)

    def save(self) -> None:
        """Write everything to its file, as it does by itself every half minute."""
        before = self._kept_file()
        self.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: self._kept_file() != before, self.log)

    def _kept_file(self) -> int:
        return self._kept.stat().st_ino if self._kept.exists() else 0  # it is written anew and put in its place

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


class Coordinator(Process):
    """A coordinator on an external broker; with ``points`` it is the mortal one."""

    def __init__(
        self,
        folder: Path,
        broker_port: int,
        points: dict[str, int] | None = None,
        data: Path | None = None,
        codec: str = "dense-f32",
        more: str = "",
        **task: object,
    ) -> None:
        folder.mkdir(exist_ok=True)
        if not (folder / "model").exists():
            write_model(folder / "model")
        self.folder, (self.port,) = folder, free_ports(1)
        self.data = data or folder / "data"
        settings = {
            "goal": 3,
            "minimum": 2,
            "over_selection": 1.0,
            "selection_window_s": 0.2,
            "selection_deadline_s": 10.0,
            "report_deadline_s": 60.0,
            "retry_after_s": 0.3,
            **task,
        }
        config = folder / "coordinator.toml"
        config.write_text(
            f'port = {self.port}\ndata_dir = "{self.data}"\ntransport = "plain"\n'
            f'[broker]\nkind = "external"\nport = {broker_port}\n'
            '[task]\nmodel = "model"\n'
            + "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
            + f'\n[task.codec]\nname = "{codec}"\n[limits]\ncohort = 1\ndensity = 1.0\n{more}\n'
        )
        command = [sys.executable, "-m", "nightjar.coordinator", "serve", "--config", str(config)]
        self.died = folder / "died"
        if points is not None:
            (folder / "points").write_text("\n".join(f"{name}@{number}" for name, number in points.items()))
            module = "tests.faults.mortal_coordinator"
            command = [sys.executable, "-m", module, str(config), str(folder / "points"), str(self.died)]
        super().__init__(command, folder / "log")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> bytes | None:
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=20) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.read() if path == "/healthz" else None
        except (OSError, http.client.HTTPException):  # the latter: it died in the middle of its answer
            return None

    def state(self) -> dict:
        return state_from(self.get) or {}

    def wait_until(self, holds: Callable[[dict], object], what: str, timeout_s: float = PATIENCE_S) -> dict:
        seen: dict = {}

        def look() -> object:
            seen.clear()
            seen.update(self.state())
            return seen and holds(seen)

        def say() -> str:
            return f"{what}; the state: {json.dumps(seen)[:1500]}; the log:\n{self.log()[-4000:]}"

        wait_until(look, say, timeout_s)
        return seen

    def wait_healthy(self, timeout_s: float = PATIENCE_S) -> None:
        wait_until(
            lambda: (self.get("/healthz") or b"").startswith(b'{"ok":true'), lambda: self.log()[-4000:], timeout_s
        )

    def wait_done(self, timeout_s: float = PATIENCE_S) -> dict:
        return self.wait_until(lambda state: state["task"]["state"] == "finished", "done", timeout_s)


class Supervisor:
    """Starts a process again when it was killed, as systemd does."""

    def __init__(self, process: Process) -> None:
        self._process, self._ended = process, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Supervisor:
        self._process.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._process.stop()

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            if not self._process.running:
                self._process.start()


class Phones(Process):
    """Some real agents in one process."""

    def __init__(
        self,
        folder: Path,
        names: list[str],
        broker_port: int,
        url: str,
        logs: Path | None = None,
        module: str = "tests.faults.phones",
        **changes,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.names = folder, names
        habits = {"hysteresis_s": 0.1, "poll_s": 0.1, "log": "info", **changes}
        self.setting = PhoneSetting(str(folder), tuple(names), POPULATION, broker_port, url, **habits)
        self._path = folder / f"{names[0]}.json"
        super().__init__([sys.executable, "-m", module, str(self._path)], (logs or folder) / f"{names[0]}.log")

    def start(self) -> None:
        self._path.write_bytes(msgspec.json.encode(self.setting))
        super().start()

    def change(self, **changes) -> None:
        """For the next start."""
        self.setting = msgspec.structs.replace(self.setting, **changes)

    def hold(self, what: str) -> None:
        """Hold all of them ``unplugged`` or in ``training``."""
        for name in self.names:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            (self.folder / name / what).touch()

    def let_go(self, what: str) -> None:
        for name in self.names:
            (self.folder / name / what).unlink()

    def wait_for(self, event: str, timeout_s: float = PATIENCE_S) -> None:
        """Until the log of this start says so."""
        wait_until(lambda: event in self.log(), lambda: f"{event}:\n{self.log()[-4000:]}", timeout_s)


def publish_retained(port: int, count: int, kinds: Sequence[Status]) -> None:
    """The statuses that so many devices left at the broker, of each kind in turn."""
    client = paho.Client(CallbackAPIVersion.VERSION2, "all of them", protocol=paho.MQTTv311)
    at_once = 1000
    client.max_inflight_messages_set(at_once)
    client.connect("127.0.0.1", port)
    client.loop_start()
    payloads = [messages.encode(kind) for kind in kinds]
    for number in range(count):
        topic = topics.status(POPULATION, DeviceId(f"left-{number:05d}"))
        last = client.publish(topic, payloads[number % len(kinds)], qos=1, retain=True)
        if number % at_once == at_once - 1 or number == count - 1:  # paho once kept the last of a queue back
            last.wait_for_publish(PATIENCE_S)
            assert last.is_published()
    hang_up(client)


def accepted_by_receipt(*phones: Phones) -> set[tuple[int, str]]:
    """(round, device) of every receipt that a phone was told ``accepted`` in."""
    found = set()
    for process in phones:
        for line in process.log().splitlines():
            if "event=receipt " in line and re.search(r"verdict=(accepted|duplicate)\b", line):
                found.add((int(re.search(r"round=(\d+)", line).group(1)), re.search(r"device=(\S+)", line).group(1)))
    return found


def check_ledger(coordinator: Coordinator, *phones: Phones) -> dict[str, int]:
    """Every accepted report is in exactly one commit or one abandoned round, and every version is what its reports say.

    Returns:
        How many there were of what.
    """
    artifacts = FileBlobs(coordinator.data / "artifacts")
    with contextlib.closing(sqlite3.connect(coordinator.data / "coordinator.sqlite")) as database:
        states = [msgspec.json.decode(body, type=Round) for (body,) in database.execute("SELECT state FROM rounds")]
        rows = database.execute("SELECT round, device, num_examples FROM reports ORDER BY round, device").fetchall()
        versions = database.execute(
            "SELECT version, round, manifest, clip_norm FROM versions ORDER BY version"
        ).fetchall()
    assert len({(number, device) for number, device, _ in rows}) == len(rows), "a device is in one round twice"
    held = {SeatState.REPORTED, SeatState.EARLY}
    reported = {
        (state.number, device): (seat_round(state, seat), seat_version(state, seat))
        for state in states
        for device, seat in state.seats.items()
        if seat.state in held
    }
    early = {(state.number, device) for state in states for device in state.devices(SeatState.EARLY)}
    stored = {(number, device) for number, device, _ in rows}
    assert stored == reported.keys(), "the reports and the rounds disagree"
    named = [(given, device) for (_, device), (given, _) in reported.items()]
    assert len(named) == len(set(named)), "a report is in two rounds"
    lost = accepted_by_receipt(*phones) - set(named)
    assert not lost, f"accepted and not there: {sorted(lost)}"
    over = {state.number for state in states if state.phase in TERMINAL}
    assert {number for number, _ in stored} <= over, "a report is in a round that is not over"

    def weights(name: str) -> np.ndarray:
        manifest = Manifest.decode(artifacts.get(name))
        return weights_from_bytes(artifacts.get(manifest.weights.sha256), manifest.layout)

    committed = {state.number for state in states if state.phase is Phase.COMMITTED}
    assert {number for _, number, *_ in versions if number is not None} == committed
    late = 0
    for (before, _, base, clip_norm), (_, number, name, _) in pairwise(versions):
        former = weights(base)
        rows_of = [row for row in rows if row[0] == number and row[:2] not in early]
        staleness = [before - reported[row[:2]][1] for row in rows_of]
        late += sum(map(bool, staleness))
        mine = [(step_of(device), examples) for _, device, examples in rows_of]
        # As core/aggregate.py says it: none pulls further than the norm, none weighs more than the median.
        most = clip_norm / former.size**0.5 if clip_norm else statistics.median_low(step for step, _ in mine)
        cap = statistics.median_low(examples for _, examples in mine)
        weighed = [(min(step, most), min(examples, cap)) for step, examples in mine]
        factors = [(1 + versions_since) ** -0.5 for versions_since in staleness]
        steps = (factor * step * examples for factor, (step, examples) in zip(factors, weighed, strict=True))
        mean = sum(steps) / sum(examples for _, examples in weighed)
        np.testing.assert_allclose(weights(name) - former, mean, atol=1e-5, err_msg=f"round {number}")
    for process in phones:
        assert "Traceback" not in process.log(), process.log()[-3000:]
    assert "Traceback" not in coordinator.log(), coordinator.log()[-3000:]
    # A selection to which nobody came cost nobody anything: when killed phones come back is a matter of seconds.
    empty = {state.number for state in states if state.cause is AbandonCause.NOBODY_CAME}
    abandoned = len(over - committed - empty)
    counted = {"committed": len(committed), "abandoned": abandoned, "empty": len(empty), "reports": len(stored)}
    counted |= {"late": late} if late else {}
    print("ledger:", counted)
    return counted
