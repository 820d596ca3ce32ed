"""Two coordinators on two hosts, which share a database and a broker on a third."""

import contextlib
import http.client
import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import sqlalchemy as sa

from nightjar.coordinator.mqtt.broker import find_mosquitto, write_mosquitto_files
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.mqtt.listeners import Listeners
from nightjar.coordinator.rounds.round import Round
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.signing_key import KEY_FILE, KEYS_FILE
from nightjar.simulation.demo.reading import state_from
from tests.brokers import wait_for_port
from tests.coordinator.fake_device import PATIENCE_S
from tests.coordinator.model_folder import write_model
from tests.coordinator.service_files import write_service
from tests.hosts.network import Host
from tests.processes import end

ROOT = Path(__file__).parents[2]
PORT = 8080


class Broker:
    """A mosquitto that every host reaches."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        folder.mkdir()
        configuration = write_mosquitto_files(Listeners("0.0.0.0", self.port, "", ""), folder)
        self._process = subprocess.Popen([find_mosquitto(), "-c", configuration], stderr=subprocess.DEVNULL)
        wait_for_port(self.port)

    def close(self) -> None:
        end(self._process, 60)


class Coordinator:
    """A coordinator on a host.

    Args:
        name: of the host.
        host: where it runs.
        folder: for its files.
        database: URL of the database, as reached from this machine.
        broker_port: port of the broker.
        task: settings of the task.
    """

    def __init__(
        self,
        name: str,
        host: Host,
        folder: Path,
        database: str,
        broker_port: int,
        **task: object,
    ) -> None:
        self.name, self.host, self.folder = name, host, folder
        write_model(folder / "model")
        url = sa.make_url(database)
        reached = f"postgresql://nightjar@{host.outside}:{url.query['port']}/{url.database}"
        lines = [
            f'host = "{host.address}"',
            f"port = {PORT}",
            f'database_url = "{reached}"',
            'data_dir = "data"',
            'transport = "proxied"',
            "public_reading = true",
            "[broker]",
            'kind = "external"',
            f'host = "{host.outside}"',
            f"port = {broker_port}",
        ]
        write_service(folder, lines, **{"rounds": 1, **task})
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        serve = [
            sys.executable,
            "-m",
            "nightjar.coordinator",
            "serve",
            "--config",
            str(self.folder / "coordinator.toml"),
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.host.command(self.name), *serve], cwd=ROOT, stderr=log, stdout=log, start_new_session=True
            )

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
            self.process.wait(PATIENCE_S)

    def signal(self, number: int) -> None:
        """Send a signal to the coordinator and to its child processes."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [*self.children(), psutil.Process(self.process.pid)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def get(self, path: str) -> bytes | None:
        try:
            with urllib.request.urlopen(f"http://{self.host.address}:{PORT}{path}", timeout=5) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            error.close()
        except (OSError, http.client.HTTPException):
            pass
        return None

    def post(self, path: str, token: str) -> int:
        """The status of the answer to a request for a change."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(
            f"http://{self.host.address}:{PORT}{path}", b'{"reason": "test"}', headers, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def health(self) -> dict:
        return json.loads(self.get("/healthz") or b"{}")

    def leads(self) -> bool:
        health = self.health()
        return health.get("ok", False) and "leader" not in health

    def follows(self, leader: str) -> bool:
        return self.health().get("leader") == leader

    def state(self) -> dict:
        found: list[dict] = []
        self.wait_until(lambda: found.append(state_from(self.get) or {}) or found[-1], "answering with its state")
        return found[-1]

    def wait_until(self, holds: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"{self.name} is not {what}; its log:\n{self.log()}")
            time.sleep(0.05)

    def ended(self) -> int:
        """Exit status, once it has ended by itself."""
        return self.process.wait(PATIENCE_S)

    def log(self) -> str:
        return (self.folder / "log").read_text()


class Fleet:
    """Two coordinators that have started: the first leads."""

    def __init__(self, folder: Path, places: list[Host], database: str, **task: object) -> None:
        self.broker = Broker(folder / "broker")
        self.database = database
        self.coordinators: list[Coordinator] = []
        for name, host in zip(("alder", "birch"), places, strict=True):
            (folder / name).mkdir()
            made = Coordinator(name, host, folder / name, database, self.broker.port, **task)
            if self.coordinators:  # devices know one key
                (made.folder / "data").mkdir(mode=0o700)
                for key in (KEY_FILE, KEYS_FILE):
                    shutil.copy(self.coordinators[0].folder / "data" / key, made.folder / "data" / key)
            self.coordinators.append(made)
            made.start()
            first = self.coordinators[0]
            # Not only answering: what devices send before the leader has subscribed is lost, and sent by them again.
            made.wait_until(first.leads if made is first else lambda: made.follows(first.name), "ready")  # noqa: B023

    def close(self) -> None:
        for each in self.coordinators:
            each.host.heal()
            each.close()
        self.broker.close()

    def rows(self) -> tuple[object, ...]:
        """What the database holds of what a leader changes."""
        with self._opened() as database, database.transaction() as tx:
            counters = {name: value for name, value in tx.counters().items() if name != "bytes_down"}  # by asking
            return counters, tx.round(1), tx.last_round_number(), database.leader()

    def round(self) -> Round:
        with self._opened() as database, database.transaction() as tx:
            return tx.round(1)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Database]:
        database = Database(self.database, migrate=False)
        try:
            yield database
        finally:
            database.close()
