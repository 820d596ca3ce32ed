"""An enrolled device, from when it is connected until it is out: ``python -m tests.deploy.probe DATA_DIR``.

Prints "connected"; then, when its connection was ended, the broker takes it no more and HTTPS says why, the wall-clock
time of that.
"""

import contextlib
import ssl
import sys
import time
from pathlib import Path

import paho.mqtt.client as paho
import urllib3
from paho.mqtt.enums import CallbackAPIVersion

from nightjar.coordinator.engine.clock import WallClock
from nightjar.edge_agent.enrolment.identity import EnrolledIdentity, held_identity, tls_context

PATIENCE_S = 60.0


def connected(identity: EnrolledIdentity, context: ssl.SSLContext) -> bool:
    """Whether the broker takes the device; if so, waits until that connection ends."""
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=identity.device, protocol=paho.MQTTv311)
    client.tls_set_context(context)
    until_s, was_in = time.monotonic() + PATIENCE_S, False
    with contextlib.suppress(OSError):
        client.connect(identity.broker_host, identity.broker_port, keepalive=10)
        while time.monotonic() < until_s and not client.loop(0.1):
            if client.is_connected() and not was_in:
                was_in = True
                sys.stdout.write("connected\n")
                sys.stdout.flush()
    return was_in


def main(data_dir: Path) -> None:
    identity = held_identity(data_dir)
    context = tls_context(data_dir, identity)
    while connected(identity, context):
        pass
    with urllib3.PoolManager(ssl_context=context, assert_hostname=False) as pool:
        answer = pool.request("GET", f"{identity.coordinator_url}/api/v1/enrolment/self", timeout=30, retries=5)
    assert answer.status == 403, answer.status
    sys.stdout.write(f"{WallClock().now_s()}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
