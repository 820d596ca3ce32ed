"""The real service process with a real broker, and devices that speak the protocol."""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import psutil
import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports, is_free
from nightjar.coordinator.web.server import STOP_TIMEOUT_S
from nightjar.models.manifest import Manifest
from nightjar.simulation.demo.reading import state_from
from nightjar.wire import frame, messages, topics
from nightjar.wire.messages import (
    Announcement,
    Dropout,
    DropoutCause,
    Missing,
    Query,
    Receipt,
    Rejection,
    RejectionReason,
    Verdict,
)
from nightjar.wire.parameters import weights_from_bytes
from tests.brokers import KINDS
from tests.coordinator.fake_device import PATIENCE_S, POPULATION, FakeDevice, devices, report_frame
from tests.coordinator.model_folder import INITIAL, LAYOUT, write_model
from tests.coordinator.service_files import write_service
from tests.processes import end

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.broker


class Service:
    """A coordinator process on a folder, with what a test asks of it."""

    def __init__(self, folder: Path, kind: str, **task: object) -> None:
        self.folder = folder
        self.port, self.broker_port = free_ports(2)
        if not (folder / "model").exists():
            write_model(folder / "model")
        lines = [
            f"port = {self.port}",
            'data_dir = "data"',
            'transport = "plain"',
            "[broker]",
            f'kind = "{kind}"',
            f"port = {self.broker_port}",
        ]
        write_service(folder, lines, **task)
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Service":
        if self.process is None:
            try:
                self.start()
            except BaseException:
                self.__exit__()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            end(self.process, PATIENCE_S)

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "nightjar.coordinator",
            "serve",
            "--config",
            str(self.folder / "coordinator.toml"),
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stderr=log, stdout=log)
        self.wait_until(self.healthy, "healthy")

    def healthy(self) -> bool:
        return (self.get("/healthz") or b"").startswith(b'{"ok":true')

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def get(self, path: str) -> bytes | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            error.close()
        except (OSError, http.client.HTTPException):
            pass
        return None

    def fetch(self, path: str) -> bytes:
        """What is there; on a busy machine an answer may take its time."""
        found: list[bytes] = []
        self.wait_until(lambda: found.append(self.get(path) or b"") or found[-1], f"answering {path}")
        return found[-1]

    def state(self) -> dict:
        found: list[dict] = []
        self.wait_until(lambda: found.append(state_from(self.get) or {}) or found[-1], "answering with its state")
        return found[-1]

    def wait_until(self, holds, what: str, timeout_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline or (self.process and self.process.poll() is not None):
                raise AssertionError(f"not {what}; the log:\n{self.log()}")
            time.sleep(0.05)

    def log(self) -> str:
        return (self.folder / "log").read_text()


def updates(count: int) -> list[np.ndarray]:
    return [np.full(LAYOUT.size, 0.01 * (number + 1), np.float32) for number in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_through_a_real_broker_gives_the_mean_of_what_is_clipped(tmp_path, kind):
    with Service(tmp_path, kind, rounds=1) as service, devices(service.broker_port, "a", "b") as (a, b):
        a.check_in()
        b.check_in()
        first, second = a.wait_for_assignment(), b.wait_for_assignment()
        small, large = updates(2)
        assert a.report_until_receipt(first, report_frame(first, small, LAYOUT, 1)).verdict is Verdict.ACCEPTED
        assert b.report_until_receipt(second, report_frame(second, large, LAYOUT, 3)).verdict is Verdict.ACCEPTED
        service.wait_until(lambda: service.state()["task"]["state"] == "finished", "done")

        state = service.state()
        manifest = Manifest.decode(service.fetch(f"/artifacts/{state['versions'][-1]['manifest']}"))
        weights = weights_from_bytes(service.fetch(f"/artifacts/{manifest.weights.sha256}"), manifest.layout)
        np.testing.assert_allclose(weights, INITIAL + (small + large / 2) / 2, rtol=1e-6)
        assert state["counters"]["rounds_committed"] == 1
        assert state["counters"]["reports_accepted"] == 2
        name = {"embedded": "amqtt"}.get(kind, kind)
        assert f"broker={name}" in service.log()
        assert "gate_off" in service.log()
        service.wait_until(
            lambda: service.state()["counters"]["bytes_down"] >= 4 * LAYOUT.size, "counting what it serves"
        )
        a.check_in()
        assert a.wait_for(Rejection).reason is RejectionReason.NO_TASK


@pytest.mark.parametrize("kind", KINDS)
def test_killed_in_the_middle_of_a_round_nothing_is_lost_and_nothing_counts_twice(tmp_path, kind):
    with Service(tmp_path, kind, rounds=1, goal=3, minimum=3) as service:
        with devices(service.broker_port, "a", "b", "c") as (a, b, c):
            for device in (a, b, c):
                device.check_in()
            asked = {device: device.wait_for_assignment() for device in (a, b, c)}
            reports = {
                device: report_frame(asked[device], update, LAYOUT)
                for device, update in zip((a, b, c), updates(3), strict=True)
            }
            assert a.report(asked[a], reports[a]).verdict is Verdict.ACCEPTED
            service.kill()
        _wait_for_free_port(service.broker_port)
        service.start()
        with devices(service.broker_port, "a", "b", "c") as (a2, b2, c2):
            assert a2.report(asked[a], reports[a]).verdict is Verdict.DUPLICATE
            assert b2.report(asked[b], reports[b]).verdict is Verdict.ACCEPTED
            assert c2.report(asked[c], reports[c]).verdict is Verdict.ACCEPTED
            service.wait_until(lambda: service.state()["task"]["state"] == "finished", "done")
        state = service.state()
        assert state["counters"]["reports_accepted"] == 3
        assert state["counters"]["reports_duplicate"] == 1
        assert state["counters"]["rounds_abandoned"] == 0
        assert state["rounds"][-1]["accepted"] == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_that_is_killed_comes_back_and_the_round_goes_on(tmp_path, kind):
    with Service(tmp_path, kind, rounds=1) as service, devices(service.broker_port, "a", "b") as (a, b):
        a.check_in()
        b.check_in()
        asked_a, asked_b = a.wait_for_assignment(), b.wait_for_assignment()
        assert a.report_until_receipt(asked_a, report_frame(asked_a, updates(1)[0], LAYOUT))
        (broker,) = (child for child in psutil.Process(service.process.pid).children() if is_broker(child))
        broker.kill()
        receipt = b.report_until_receipt(asked_b, report_frame(asked_b, updates(1)[0], LAYOUT))
        assert receipt.verdict is Verdict.ACCEPTED
        service.wait_until(lambda: service.state()["task"]["state"] == "finished", "done")
        assert "broker_restarted" in service.log()


def is_broker(child: psutil.Process) -> bool:
    return {"broker", "mosquitto"} & {Path(argument).name for argument in child.cmdline()} != set()


def _wait_for_free_port(port: int) -> None:
    """The broker of a killed coordinator must be gone: it dies with its parent."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if is_free(port):
            return
        time.sleep(0.05)
    raise AssertionError(f"somebody still listens on {port}")


def test_bad_reports_get_their_codes_and_the_round_goes_on(tmp_path):
    with Service(tmp_path, "auto", rounds=1, goal=1, minimum=1, over_selection=3.0) as service:
        with devices(service.broker_port, "a", "b", "c", "stranger") as (a, b, c, stranger):
            for device in (a, b, c):
                device.check_in()
            asked = {device: device.wait_for_assignment() for device in (a, b, c)}
            good = report_frame(asked[a], updates(1)[0], LAYOUT)
            assert stranger.report(asked[a], good).code == "not-selected"
            assert a.report(asked[a], good[:-1]).code == "truncated"
            empty = report_frame(asked[b], updates(1)[0], LAYOUT, num_examples=0)
            assert b.report(asked[b], empty).code == "examples"
            stranger.publish("check-in", b"\xff not json")
            stranger._publish_raw("nightjar/1/demo/up/0/..%2f/check-in", b"{}")
            assert c.report(asked[c], good).verdict is Verdict.ACCEPTED
            service.wait_until(lambda: service.state()["task"]["state"] == "finished", "done")
            service.wait_until(
                lambda: service.state()["counters"]["malformed_messages"] == 2, "both malformed ones read"
            )
        counters = service.state()["counters"]
        assert counters["reports_invalid"] == {"examples": 1, "not-selected": 1, "truncated": 1}
        assert counters["reports_accepted"] == 1


def test_dropouts_are_counted_by_cause_and_replaced(tmp_path):
    with Service(tmp_path, "auto", rounds=1) as service:
        with devices(service.broker_port, "a", "b", "c") as (a, b, c):
            a.check_in()
            b.check_in()
            asked_a = a.wait_for_assignment()
            b.wait_for_assignment()
            a.send(Dropout(round=asked_a.round, attempt=asked_a.attempt, cause=DropoutCause.UNPLUGGED))
            b.vanish()
            gone = {"connection-lost": 1, "unplugged": 1}
            service.wait_until(lambda: service.state()["counters"]["dropouts"] == gone, "both gone")
            asked_c, again = c.wait_for_assignment(), a.wait_for_assignment()
            if again.attempt == 1:  # the first one once more, to a check-in that was sent before it came
                again = a.wait_for_assignment()
            assert again.attempt == 2
            for device, asked in ((c, asked_c), (a, again)):
                receipt = device.report_until_receipt(asked, report_frame(asked, updates(1)[0], LAYOUT))
                assert receipt.verdict is Verdict.ACCEPTED
            service.wait_until(lambda: service.state()["task"]["state"] == "finished", "done")
        assert service.state()["rounds"][-1]["dropped"] == gone


def test_a_large_report_comes_in_chunks_and_missing_ones_are_asked_for(tmp_path):
    words = tuple(f"w{number}" for number in range(12_000))
    manifest = write_model(tmp_path / "model", words)
    with Service(tmp_path, "auto", rounds=1, goal=1, minimum=1) as service:
        with devices(service.broker_port, "a") as (a,):
            asked = a.wait_for_assignment()
            report = report_frame(asked, np.full(manifest.layout.size, 0.001, np.float32), manifest.layout)
            payloads = frame.publishes(report, asked.round, asked.attempt)
            assert len(payloads) >= 2
            a.publish("report", payloads[-1])
            a.send(Query(round=asked.round, attempt=asked.attempt, chunks=len(payloads)))
            assert a.wait_for(Missing).chunks == tuple(range(len(payloads) - 1))
            service.kill()
        _wait_for_free_port(service.broker_port)
        service.start()
        with devices(service.broker_port, "a") as (a,):
            a.send(Query(round=asked.round, attempt=asked.attempt, chunks=len(payloads)))
            assert a.wait_for(Missing).chunks == tuple(range(len(payloads) - 1))
            for payload in payloads[:-1]:
                a.publish("report", payload)
            assert a.wait_for(Receipt).verdict is Verdict.ACCEPTED
            a.send(Query(round=asked.round, attempt=asked.attempt, chunks=len(payloads)))
            assert a.wait_for(Receipt).verdict is Verdict.DUPLICATE
            service.wait_until(lambda: service.state()["task"]["state"] == "finished", "done")


def test_it_waits_for_a_broker_that_is_down_and_says_so(tmp_path):
    service = Service(tmp_path, "external")
    command = [sys.executable, "-m", "nightjar.coordinator", "serve", "--config", str(tmp_path / "coordinator.toml")]
    with (tmp_path / "log").open("wb") as log:
        service.process = subprocess.Popen(command, cwd=ROOT, stderr=log)
    with service:
        service.wait_until(lambda: "broker_unreachable" in service.log(), "saying that the broker is down")
        broker_command = [sys.executable, "-m", "nightjar.coordinator", "broker", "--kind", "embedded", "--port"]
        broker_command += [str(service.broker_port), "--data", str(tmp_path / "b"), "--die-with", str(os.getpid())]
        broker = subprocess.Popen(broker_command, cwd=ROOT)
        try:
            service.wait_until(service.healthy, "connected")
        finally:
            broker.terminate()
            assert broker.wait(PATIENCE_S) == 0
        service.process.send_signal(signal.SIGINT)
        assert service.process.wait(PATIENCE_S) == 0


def run_serve(config: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nightjar.coordinator", "serve", "--config", str(config)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_faults_of_the_owner_end_with_one_message_and_status_2(tmp_path):
    service = Service(tmp_path, "embedded")
    config = tmp_path / "coordinator.toml"

    done = run_serve(tmp_path / "none.toml")
    assert (done.returncode, "there is no configuration file" in done.stderr) == (2, True)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", service.broker_port))
        taken.listen()
        done = run_serve(config)
    assert done.returncode == 2
    assert str(service.broker_port) in done.stderr
    assert "external" in done.stderr

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", service.port))
        taken.listen()
        done = run_serve(config)
    assert (done.returncode, str(service.port) in done.stderr) == (2, True)

    shutil.rmtree(tmp_path / "data")
    (tmp_path / "model" / "weights.bin").write_bytes(b"other bytes")
    done = run_serve(config)
    assert (done.returncode, "weights.bin" in done.stderr, "sha256" in done.stderr) == (2, True, True)
    assert "Traceback" not in done.stderr


def test_a_second_coordinator_on_the_same_folder_is_refused(tmp_path):
    with Service(tmp_path, "embedded"):
        done = run_serve(tmp_path / "coordinator.toml")
    assert done.returncode == 2
    assert "another coordinator" in done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_with_a_password_lets_only_those_in_who_know_it(tmp_path, kind):
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "nightjar.coordinator", "broker", "--kind", kind, "--port", str(port)]
    command += ["--data", str(tmp_path), "--username", "nightjar", "--die-with", str(os.getpid())]
    environment = {**os.environ, "NIGHTJAR_BROKER_PASSWORD": "open sesame"}
    with (tmp_path / "log").open("wb") as log:
        broker = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=log)
    try:
        friend = _when_up(port, "nightjar", "open sesame")
        stranger = FakeDevice("stranger", port, username="nightjar", password="guess")
        deadline = time.monotonic() + PATIENCE_S
        while not stranger.refused and time.monotonic() < deadline:
            time.sleep(0.05)
        assert stranger.refused
        assert not friend.refused
        friend.close()
        stranger.close()
    finally:
        end(broker, PATIENCE_S)


def test_the_embedded_broker_tells_a_device_nothing_about_the_others(tmp_path):
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "nightjar.coordinator", "broker", "--kind", "embedded", "--port", str(port)]
    command += ["--data", str(tmp_path), "--die-with", str(os.getpid())]
    with (tmp_path / "log").open("wb") as log:
        broker = subprocess.Popen(command, cwd=ROOT, stderr=log)
    try:
        watcher = _when_up(port, "coordinator", None)
        watcher._client.subscribe(topics.status_filter(POPULATION), qos=1)
        announcement = Announcement(version=0, manifest="0" * 64)
        watcher._publish_raw(topics.announce(POPULATION), messages.encode(announcement), retain=True)
        assert watcher.wait_for(Announcement) == announcement
        with devices(port, "b") as (late,):
            assert late.arrived.get(timeout=PATIENCE_S) == announcement
            assert late.arrived.empty()
        watcher.close()
    finally:
        end(broker, PATIENCE_S)


def _when_up(port: int, username: str, password: str | None) -> FakeDevice:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return FakeDevice("friend", port, username=username, password=password)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_a_device_that_keeps_its_connection_open_does_not_hold_up_the_end(tmp_path):
    service = Service(tmp_path, "embedded")

    def ended_after_s() -> float:
        begun = time.monotonic()
        service.process.terminate()
        assert service.process.wait(PATIENCE_S) == 0
        return time.monotonic() - begun

    service.start()
    alone_s = ended_after_s()
    service.start()
    connection = http.client.HTTPConnection("127.0.0.1", service.port)
    connection.request("GET", "/healthz")
    connection.getresponse().read()
    held_s = ended_after_s()
    connection.close()
    assert held_s < alone_s + 0.8 * STOP_TIMEOUT_S, "it waited for the connection"
