"""Ends a device's open MQTT connection by taking over its session, and clears its retained status.

A broker that reloads its revocation list checks it only on new connections. MQTT has no message that disconnects
another client, but every broker implements session takeover: the client that connected last with a client id owns the
session (MQTT 3.1.1, 3.1.4).
"""

from __future__ import annotations

import ssl
import time

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from coordinator.config import BrokerConfig
from wire import topics
from wire.errors import UnavailableError
from wire.identifiers import DeviceId, Population

TIMEOUT_S = 3.0


def end_session(broker: BrokerConfig, tls: ssl.SSLContext, population: Population, device: DeviceId) -> None:
    """Take over a device's session, end it, and clear the retained status, which is by then the device's last will.

    Raises:
        UnavailableError: the broker cannot be reached, or does not allow the takeover.
    """
    client = paho.Client(CallbackAPIVersion.VERSION2, device, clean_session=True, protocol=paho.MQTTv311)
    client.username_pw_set(broker.username, broker.password or None)
    client.tls_set_context(tls)
    client.connect_timeout = TIMEOUT_S
    try:
        client.connect(broker.host, broker.port, keepalive=10)
        given_up_s = time.monotonic() + TIMEOUT_S
        cleared: paho.MQTTMessageInfo | None = None
        while not (cleared and cleared.is_published()) and time.monotonic() < given_up_s:
            if client.loop(0.1):
                break
            if client.is_connected() and cleared is None:
                cleared = client.publish(topics.status(population, device), b"", qos=1, retain=True)
        ended = cleared is not None and cleared.is_published()
    except OSError as error:
        msg = f"the broker does not let us end the session of {device}: {error}"
        raise UnavailableError(msg) from error
    finally:
        client.disconnect()
    if not ended:
        msg = f"the broker does not let us end the session of {device}"
        raise UnavailableError(msg)
