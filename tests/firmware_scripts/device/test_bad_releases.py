"""Real agents, a real broker, real releases on a disk; only systemd is played.

What must hold: a bad release (crashes, hangs, cannot connect, fails the self-test) is taken back by itself, and its
reason reaches whoever listens to the device's status.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from functools import partial

import paho.mqtt.client as paho
import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.firmware_scripts.device.boot import boot
from nightjar.firmware_scripts.device.health import AGENT, SELF_TEST, Time
from nightjar.firmware_scripts.device.installing import FETCHED
from nightjar.firmware_scripts.device.places import Places
from nightjar.firmware_scripts.device.record_file import RecordFile
from nightjar.firmware_scripts.device.releases import Offered, Settled
from nightjar.firmware_scripts.device.status_log import StatusLog
from nightjar.firmware_scripts.device.switch import Switch
from nightjar.firmware_scripts.device.system_actions import DeviceActions
from nightjar.wire import messages
from tests.brokers import hang_up
from tests.edge_agent.fake_coordinator import mosquitto, mosquitto_path
from tests.firmware_scripts.bad_releases import spoil
from tests.firmware_scripts.parcels import PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.tflite]
PATIENCE_S = 240.0  # for what must come; machines are busy
SHORT_S = 12.0  # for what cannot come


class PlayedSystemd:
    """Starts the agent that ``current`` leads to, hears its notifications, and starts it again when it ends."""

    live = True

    def __init__(self, places, folder):
        self.places = places
        self.address = str(folder / "notify")
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.line.bind(self.address)
        self.line.settimeout(0.2)
        self.lock = threading.Lock()
        self.process = None
        self.wanted = False
        self.ended = False
        self.ready, self.text, self.restarts = False, "", 0
        self.said = ""
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def environment(self):
        return {
            "PATH": "/usr/bin:/bin", "PYTHONPATH": str(self.places.current / "lib"), "NOTIFY_SOCKET": self.address,
            "NIGHTJAR_AGENT_DATA_DIR": str(self.places.root / "data"), "NIGHTJAR_RELEASES": str(self.places.record),
            "NIGHTJAR_RELEASE": str(self.places.current),
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    def command(self, *words):
        # The site-packages of this environment, and the agent of the release before them.
        return [sys.executable, "-P", "-m", "nightjar.edge_agent", *words, "--config", str(self.places.configuration)]

    def run(self):
        self.ready, self.text = False, ""
        self.process = subprocess.Popen(
            self.command("run"), env=self.environment(), cwd=self.places.root, stderr=subprocess.DEVNULL
        )

    def watch(self):
        while not self.ended:
            with contextlib.suppress(TimeoutError, BlockingIOError):  # the latter: it is being drained
                for word in self.line.recv(4096).decode().splitlines():
                    with self.lock:
                        self.ready |= word == "READY=1"
                        self.text = word.removeprefix("STATUS=") if word.startswith("STATUS=") else self.text
            with self.lock:
                if self.wanted and self.process is not None and self.process.poll() is not None:
                    self.restarts += 1
                    self.run()

    def reload(self):
        pass

    def start(self, unit):
        assert unit == FETCHED[0]

    def stop(self, unit):
        with self.lock:
            self.wanted = False
            if self.process is not None:
                self.process.kill()
                self.process.wait()
            # What the ended one still said is not the next one's.
            with contextlib.suppress(TimeoutError, BlockingIOError):
                self.line.setblocking(False)
                while True:
                    self.line.recv(4096)
            self.line.settimeout(0.2)

    def restart(self, unit):
        assert unit == AGENT
        self.stop(unit)
        with self.lock:
            self.wanted, self.restarts = True, 0
            self.run()

    def work(self, unit):
        assert unit == SELF_TEST
        done = subprocess.run(
            self.command("self-test"), env=self.environment(), cwd=self.places.root, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        self.said = (done.stdout + done.stderr).strip()
        return done.returncode

    def show(self, unit):
        with self.lock:
            up = self.ready and self.process.poll() is None
            state = "active" if up else "activating"
            return {"ActiveState": state, "StatusText": self.text, "NRestarts": str(self.restarts)}

    def last_words(self, unit):
        return self.said[-200:]

    def close(self):
        self.stop(AGENT)
        self.ended = True
        self.thread.join(60)
        self.line.close()


@pytest.fixture
def broker(tmp_path):
    if mosquitto_path() is None:
        pytest.skip("mosquitto is not installed: apt install mosquitto")
    (port,) = free_ports(1)
    with mosquitto(tmp_path, port):
        yield port


class Device:
    def __init__(self, root, port):
        self.places = Places(root)
        for folder in (self.places.parcel, self.places.configuration.parent):
            folder.mkdir(parents=True)
        self.places.configuration.write_text(
            f'device = "porch-01"\npopulation = "home"\ncoordinator_url = "http://127.0.0.1:9"\n'
            f'[broker]\nhost = "127.0.0.1"\nport = {port}\n[conditions]\npoll_s = 0.2\nask_logind = false\n'
        )
        self.systemd = PlayedSystemd(self.places, root)
        self.offered = self.kind = None
        self.limit_s = PATIENCE_S
        tell = StatusLog(self.places.status)
        # The clock is asked for the limit at each trial, which may differ.
        self.actions = DeviceActions(self.places, self.systemd, tell, self.trial(), self.unpack)
        self.switch = Switch(RecordFile(self.places), self.actions)

    def trial(self):
        return Time(time.monotonic, time.sleep, self.limit_s)

    def unpack(self):
        lib = self.places.releases / self.offered / "lib"
        shutil.rmtree(lib.parent, ignore_errors=True)
        for name in ("wire", "host", "models", "edge_agent"):
            shutil.copytree(PROJECT / name, lib / "nightjar" / name, ignore=shutil.ignore_patterns("__pycache__"))
        spoil(lib, self.kind, self.offered)
        own = lib.parent / "device"
        (own / "units").mkdir(parents=True)
        (own / "nightjar-device.pyz").write_text(self.offered)
        for unit in ("agent", "firstboot"):
            (own / "units" / f"nightjar-{unit}.service").write_text(self.offered)

    def offer(self, version, kind):
        self.offered, self.kind = version, kind
        return Offered(version, present_is_well=True)

    def boot(self):
        first = partial(self.offer, "0.1.0", "good")
        boot(self.places, self.switch, first, self.actions.enrol_again, time.sleep)

    def update(self, version, kind, limit_s):
        self.limit_s = limit_s
        self.actions.time = self.trial()
        record, _ = self.switch.take(self.offer(version, kind))
        return record


@pytest.fixture
def device(tmp_path, broker):
    root = tmp_path / "root"
    root.mkdir()
    device = Device(root, broker)
    yield device
    device.systemd.close()


@pytest.fixture
def statuses(broker):
    """What the device says of itself, as anybody on the broker hears it."""
    heard = []
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.on_connect = lambda client, *_: client.subscribe("nightjar/1/home/status/+", 1)
    client.on_message = lambda _client, _userdata, message: heard.append(messages.decode("status", message.payload))
    client.connect("127.0.0.1", broker)
    client.loop_start()
    yield heard
    hang_up(client)


def wait_for(what):
    end_s = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end_s, "it did not come"
        time.sleep(0.1)


def test_bad_releases_are_taken_back_by_themselves_and_the_reason_is_heard(device, statuses):
    device.boot()
    assert RecordFile(device.places).load().state == Settled("0.1.0")
    wait_for(lambda: any(status.online and not status.rolled_back for status in statuses))
    bad = [
        ("0.2.0", "crashes", PATIENCE_S, r"the agent ended \d+ times: activating"),
        ("0.3.0", "hangs", SHORT_S, "the agent was not up within 12 s"),
        ("0.4.0", "cannot connect", SHORT_S, "the agent was not"),
        ("0.5.0", "cannot train", PATIENCE_S, "the self-test failed: status 4"),
    ]
    for version, kind, limit_s, reason in bad:
        record = device.update(version, kind, limit_s)
        assert record.state == Settled("0.1.0"), kind
        assert re.match(reason, record.refused[version]), kind
        said = f"{version}: {record.refused[version]}"
        wait_for(lambda said=said: any(status.online and status.rolled_back == said for status in statuses))
        assert os.path.realpath(device.places.current).endswith("/0.1.0")
    record = device.update("0.6.0", "good", PATIENCE_S)
    assert record.state == Settled("0.6.0", "0.1.0")
    assert sorted(record.refused) == [version for version, *_ in bad]
    told = device.places.status.read_text()
    assert told.count("was taken back for 0.1.0") == len(bad)
    assert "release 0.6.0 is healthy, and counts" in told
