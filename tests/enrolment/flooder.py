"""An enrolled device that sends as fast as its processor can until it is killed: ``python -m tests.enrolment.flooder``.

Arguments: the broker's port, the coordinator's URL, the device's folder, and what to send. It sends packets over a
socket of its own, because a library for MQTT takes longer over a message than a broker does.
"""

import contextlib
import socket
import ssl
import sys
import threading
import time
from pathlib import Path

import urllib3

from nightjar.edge_agent.enrolment.identity import held_identity, tls_context
from nightjar.wire import messages, topics
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.frame import MAX_PUBLISH_BYTES
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.messages import CheckIn, Dropout, DropoutCause, Query, Status

DEMO = Population("demo")
STATUS = "status"
MESSAGES = {
    STATUS: messages.encode(Status(online=True)),
    "check-in": messages.encode(CheckIn(agent_version="0.1.0", runtime="none", examples=10, codecs=to_name())),
    "dropout": messages.encode(Dropout(round=1, attempt=1, cause=DropoutCause.IN_USE)),
    "query": messages.encode(Query(round=1, attempt=1, chunks=2)),
    "report": bytes(MAX_PUBLISH_BYTES),
    topics.SUM_ANSWER: bytes(1000),
    "unreadable": b"\xff",
}
OVER_HTTPS = ("requests", "connections")
PINGS, ARRIVALS = "pings", "arrivals"
UNSENT = (PINGS, ARRIVALS)
"""What the broker alone sees: packets that it answers itself, and connections over MQTT."""
THREADS = 4
AT_ONCE_BYTES = 1 << 17


def text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def packet(kind: int, body: bytes) -> bytes:
    """An MQTT 3.1.1 packet; section 2.2 of the standard."""
    length, left = b"", len(body)
    while True:
        left, digit = divmod(left, 128)
        length += bytes([digit | 0x80 if left else digit])
        if not left:
            return bytes([kind]) + length + body


def over_mqtt(port: int, device: DeviceId, context: ssl.SSLContext, kind: str) -> None:
    of_kind = kind if kind in MESSAGES and kind != "unreadable" else "check-in"
    topic = topics.status(DEMO, device) if kind == STATUS else topics.up(DEMO, device, of_kind, 1)
    connect = packet(0x10, text("MQTT") + bytes([4, 2, 0, 60]) + text(device))
    publish = packet(0xC0, b"") if kind in UNSENT else packet(0x30, text(topic) + MESSAGES[kind])
    many = publish * max(1, AT_ONCE_BYTES // len(publish))
    while True:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain) as connection,
        ):
            connection.sendall(connect)
            connection.recv(4)
            while kind != ARRIVALS:
                connection.sendall(many)
        if kind != ARRIVALS:
            time.sleep(0.05)


def over_https(url: str, context: ssl.SSLContext, kind: str) -> None:
    while True:
        with (
            contextlib.suppress(OSError, urllib3.exceptions.HTTPError),
            urllib3.PoolManager(ssl_context=context, assert_hostname=False, retries=False) as pool,
        ):
            while kind != "connections":
                pool.request("GET", f"{url}/api/v1/enrolment/self", timeout=10)
            pool.request("GET", f"{url}/healthz", timeout=10)


def main(port: str, url: str, folder: str, kind: str) -> None:
    identity = held_identity(Path(folder))
    print("begun", flush=True)
    if kind not in OVER_HTTPS:
        over_mqtt(int(port), identity.device, tls_context(Path(folder), identity), kind)
    for _ in range(THREADS):
        context = tls_context(Path(folder), identity)
        threading.Thread(target=over_https, args=(url, context, kind), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
