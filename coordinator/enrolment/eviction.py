"""Ends a device's open connection to the broker, by taking its session over.

A broker that reads a list of revocations again asks newcomers for it, not those who are in. MQTT has no word for
throwing somebody out, but one that each broker knows: a session belongs to who connected with its name last (3.1.4).
"""

from __future__ import annotations

import socket
import ssl

from coordinator.config import BrokerConfig
from coordinator.shell import mqtt_packets as packets
from wire.errors import RemoteProtocolError, UnavailableError
from wire.identifiers import DeviceId

TIMEOUT_S = 3.0


def end_session(broker: BrokerConfig, tls: ssl.SSLContext, device: DeviceId) -> None:
    """Take over the session of a device, and end it.

    Args:
        broker: where the coordinator connects, and as whom.
        tls: as the coordinator connects.
        device: whose name the session has.

    Raises:
        UnavailableError: the broker does not let us.
    """
    reader = packets.Reader()
    try:
        with (
            socket.create_connection((broker.host, broker.port), TIMEOUT_S) as plain,
            tls.wrap_socket(plain, server_hostname=broker.host) as connection,
        ):
            connection.sendall(packets.connect(device, broker.username, broker.password, 10, clean=True))
            while not list(reader.feed(data := connection.recv(4096))):
                if not data:
                    break
            connection.sendall(packets.DISCONNECT)
    except (OSError, RemoteProtocolError) as error:
        msg = f"the broker does not let us end the session of {device}: {error}"
        raise UnavailableError(msg) from error
