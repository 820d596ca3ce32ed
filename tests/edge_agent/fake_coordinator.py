"""A scripted coordinator for tests of the whole agent: a paho client, and an HTTP server for artifacts.

It keeps every byte that an agent publishes, and answers only when the test says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from nightjar.wire import messages, topics
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.messages import Dropout, DropoutCause, Message, Status
from tests.brokers import hang_up
from tests.processes import end

PATIENCE_S = 120.0
"""For a machine that does ten other things."""


def mosquitto_path() -> str | None:
    """Where the broker is; Debian keeps it out of an ordinary user's PATH."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


@contextlib.contextmanager
def mosquitto(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A broker on a port of the loopback."""
    config = folder / f"mosquitto-{port}.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    path = mosquitto_path()
    assert path is not None
    process = subprocess.Popen([path, "-c", str(config)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        wait_for_port(port)
        assert process.poll() is None, f"port {port} is another broker's"
        yield process
    finally:
        end(process, PATIENCE_S)


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    msg = f"nothing answers on port {port}"
    raise AssertionError(msg)


@contextlib.contextmanager
def artifact_server(artifacts: dict[str, bytes]) -> Iterator[str]:
    """Serve bytes by their hash; yields the base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = artifacts.get(self.path.removeprefix("/artifacts/"))
            if data is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class FakeCoordinator:
    """Listens to a population, and says what the test wants."""

    def __init__(self, port: int, population: str = "test") -> None:
        self.population = Population(population)
        self.payloads: list[tuple[str, bytes]] = []
        self._inbox: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self._subscribed = threading.Event()
        client = paho.Client(CallbackAPIVersion.VERSION2, "fake-coordinator", protocol=paho.MQTTv311)
        client.on_connect = lambda c, *_: c.subscribe(f"{topics.ROOT}/{population}/#", qos=1)
        client.on_subscribe = lambda *_: self._subscribed.set()
        client.on_message = self._on_message
        client.connect_timeout = PATIENCE_S
        client.connect("127.0.0.1", port)
        client.loop_start()
        self._client = client
        assert self._subscribed.wait(PATIENCE_S)

    def _on_message(self, _client: Any, _userdata: Any, message: paho.MQTTMessage) -> None:
        self.payloads.append((message.topic, bytes(message.payload)))
        self._inbox.put((message.topic, bytes(message.payload)))

    def close(self) -> None:
        hang_up(self._client)

    def say(self, device: str, message: Message) -> None:
        topic = topics.down(self.population, DeviceId(device), messages.KINDS[type(message)])
        self._client.publish(topic, messages.encode(message), qos=1)

    def announce(self, announcement: messages.Announcement) -> None:
        self._client.publish(topics.announce(self.population), messages.encode(announcement), qos=1, retain=True)

    def next(self, *kinds: str, **wanted: object) -> Any:
        """The next message of one of these kinds whose fields are as wanted; others before it are passed over.

        For ``report`` the raw bytes.
        """
        while True:
            try:
                topic, payload = self._inbox.get(timeout=PATIENCE_S)
            except queue.Empty:
                seen = [t.removeprefix(topics.ROOT) for t, _ in self.payloads]
                msg = f"no {' or '.join(kinds)} {wanted} within {PATIENCE_S} s; seen {seen[-20:]}"
                raise AssertionError(msg) from None
            match topics.parse(topic):
                case topics.UpTopic(_, _, _, "report") if "report" in kinds:
                    return payload
                case topics.UpTopic(_, _, _, kind) if kind in kinds:
                    pass
                case topics.StatusTopic() if "status" in kinds:
                    kind = "status"
                case _:
                    continue
            message = messages.decode(kind, payload)
            if all(getattr(message, name) == value for name, value in wanted.items()):
                return message

    def dropped_out(self, cause: DropoutCause, reason: str) -> Dropout:
        """The dropout of a phone that lost a condition; its status says so before or after, for it may be held back."""
        dropout, said = None, False
        while dropout is None or not said:
            match self.next("status", "dropout"):
                case Dropout(cause=found) as message if found is cause:
                    dropout = message
                case Status(online=True, state="ineligible", reason=found) if found == reason:
                    said = True
        return dropout
