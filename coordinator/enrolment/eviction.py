"""Ends a device's open connection to the broker, by taking its session over.

A broker that reads a list of revocations again asks newcomers for it, not those who are in. MQTT has no word for
throwing somebody out, but one that each broker knows: a session belongs to who connected with its name last (3.1.4).
"""

from __future__ import annotations

import ssl
import time

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from coordinator.config import BrokerConfig
from wire.errors import UnavailableError
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
    client = paho.Client(CallbackAPIVersion.VERSION2, device, clean_session=True, protocol=paho.MQTTv311)
    client.username_pw_set(broker.username, broker.password or None)
    client.tls_set_context(tls)
    client.connect_timeout = TIMEOUT_S
    try:
        client.connect(broker.host, broker.port, keepalive=10)
        given_up_s = time.monotonic() + TIMEOUT_S
        while not client.is_connected() and time.monotonic() < given_up_s:
            if client.loop(0.1):
                break
        connected = client.is_connected()
    except OSError as error:
        msg = f"the broker does not let us end the session of {device}: {error}"
        raise UnavailableError(msg) from error
    finally:
        client.disconnect()
    if not connected:
        msg = f"the broker does not let us end the session of {device}"
        raise UnavailableError(msg)
