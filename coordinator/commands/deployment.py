"""The checks of ``doctor --deployment``: a running deployment as its devices meet it, from outside.

Read-only but for two connections to the broker, under client ids that nobody else uses.
"""

from __future__ import annotations

import email.utils
import json
import os
import socket
import ssl
import time
from collections.abc import Iterator

import paho.mqtt.client as paho
import urllib3
from paho.mqtt.enums import CallbackAPIVersion

from coordinator.commands.checkup import CheckupFinding
from coordinator.config import BrokerKind, CoordinatorConfig
from coordinator.storage.database import Database
from coordinator.storage.engine import database_url
from coordinator.tls_service import client_context, http_pool
from coordinator.web.words import duration
from wire import topics
from wire.errors import NightjarError
from wire.identifiers import Population

DAY_S = 86400.0
BACKUP = "backup"
"""Action in the audit log of a backup."""
_BACKUPS_AFTER_S = 7 * DAY_S
_ENDS_SOON_S = 10 * DAY_S
_CLOCK_OFF_S = 10.0
"""Devices check the dates of signed orders (docs/adr/0036-signed-orders.md)."""
_TIMEOUT_S = 5.0
_RETAINED_S = 1.5
"""How long the broker may take to send what it retains."""


def check_deployment(config: CoordinatorConfig, now_s: float) -> Iterator[CheckupFinding]:
    """Check the service, its broker, its certificates and its backups.

    Args:
        config: the configuration of the service.
        now_s: wall-clock time.
    """
    yield from _service(config, now_s)
    if config.tls:
        yield _certificate("https", config.host, config.port, config, now_s)
        yield _certificate("broker", config.broker.host, config.broker.port_for_devices, config, now_s)
        yield _strangers(config)
    yield _retained(config)
    yield _backups(config, now_s)


def _service(config: CoordinatorConfig, now_s: float) -> Iterator[CheckupFinding]:
    try:
        with http_pool(config) as pool:
            answer = pool.request("GET", f"{config.url}/healthz", timeout=_TIMEOUT_S, retries=False)
        health = json.loads(answer.data)
        reasons, limits = [str(each) for each in health["reasons"]], health.get("not_enforced", [])
    except (urllib3.exceptions.HTTPError, NightjarError, ValueError, KeyError, TypeError) as error:
        remedy = "start the service, or name its address in host and port"
        yield CheckupFinding("service", "fault", f"no coordinator answers at {config.url}: {error}", remedy)
        return
    if reasons:
        yield CheckupFinding("service", "fault", "; ".join(reasons), "read its log")
    else:
        yield CheckupFinding("service", "ok", f"{config.url} answers, and is well")
    sent = email.utils.parsedate_to_datetime(answer.headers.get("Date", "Thu, 01 Jan 1970 00:00:00 GMT")).timestamp()
    off = f"its clock and this machine's differ by {duration(abs(sent - now_s))}"
    if abs(sent - now_s) > _CLOCK_OFF_S:
        yield CheckupFinding("clock", "fault", off, "set both by NTP: devices refuse orders from the future")
    else:
        yield CheckupFinding("clock", "ok", off)
    if limits:
        found = f"devices got past its limits of {', '.join(map(str, limits))}"
        yield CheckupFinding("broker", "warning", found, "configure them as docs/brokers.md says")


def _certificate(what: str, host: str, port: int, config: CoordinatorConfig, now_s: float) -> CheckupFinding:
    category, where = "certificates", f"{what}, {host} port {port}"
    try:
        with (
            socket.create_connection((host, port), timeout=_TIMEOUT_S) as plain,
            client_context(config).wrap_socket(plain, server_hostname=host) as secured,
        ):
            certificate = secured.getpeercert() or {}
    except (OSError, NightjarError) as error:
        remedy = "start it, or give it a certificate of this coordinator's authority ('authority prepare')"
        return CheckupFinding(category, "fault", f"{where}: {error}", remedy)
    left_s = ssl.cert_time_to_seconds(str(certificate["notAfter"])) - now_s
    found = f"{where}: ends in {duration(left_s)}"
    if left_s < _ENDS_SOON_S:
        return CheckupFinding(category, "warning", found, "the service renews it: read its log; reload an own broker")
    return CheckupFinding(category, "ok", found)


def _strangers(config: CoordinatorConfig) -> CheckupFinding:
    """Whether the port of the devices refuses a client without a certificate."""
    broker = config.broker
    client = paho.Client(CallbackAPIVersion.VERSION2, f"doctor-{os.getpid()}", protocol=paho.MQTTv311)
    client.tls_set_context(client_context(config))
    where = f"{broker.host} port {broker.port_for_devices}"
    if _connected(client, broker.host, broker.port_for_devices):
        client.disconnect()
        remedy = "require_certificate true (docs/enrolment.md)"
        return CheckupFinding("broker", "fault", f"{where} lets in who has no certificate", remedy)
    return CheckupFinding("broker", "ok", f"{where} refuses who has no certificate")


def _retained(config: CoordinatorConfig) -> CheckupFinding:
    """What the broker retains beside the announcement and the statuses of devices."""
    broker, where = config.broker, Population(config.population)
    if broker.kind is not BrokerKind.EXTERNAL and config.tls:
        found = "messages that it retains were not looked at: only the service knows its broker's password"
        return CheckupFinding("broker", "ok", found)
    odd: set[str] = set()
    client = paho.Client(CallbackAPIVersion.VERSION2, f"doctor-retained-{os.getpid()}", protocol=paho.MQTTv311)
    client.username_pw_set(broker.username, broker.password or None)
    if config.tls:
        client.tls_set_context(client_context(config))
    client.on_message = lambda _client, _data, message: odd.add(message.topic) if message.retain else None
    if not _connected(client, broker.host, broker.port):
        remedy = "set broker.username, and the password in NIGHTJAR_BROKER_PASSWORD"
        return CheckupFinding("broker", "fault", f"it does not let us in as {broker.username}", remedy)
    client.subscribe([(topics.shard_filter(where, shard), 0) for shard in range(config.shards)])
    until_s = time.monotonic() + _RETAINED_S
    while time.monotonic() < until_s:
        client.loop(0.1)
    client.disconnect()
    if odd:
        found = f"it retains {len(odd)} messages to the coordinator, such as one on {min(odd)[:80]!r}"
        return CheckupFinding("broker", "warning", found, "retain_available for statuses only (docs/brokers.md)")
    return CheckupFinding("broker", "ok", "it retains no message to the coordinator")


def _backups(config: CoordinatorConfig, now_s: float) -> CheckupFinding:
    remedy = "nightjar-coordinator backup FOLDER, each night"
    try:
        database = Database(database_url(config), migrate=False)
        with database.transaction() as view:
            last_s = view.last_audited(BACKUP)
        database.close()
    except NightjarError as error:
        return CheckupFinding("backup", "fault", str(error), "run this where the service runs")
    if last_s is None:
        return CheckupFinding("backup", "warning", "there never was a backup", remedy)
    found = f"the last backup was {duration(now_s - last_s)} ago"
    late = now_s - last_s > _BACKUPS_AFTER_S
    return CheckupFinding("backup", "warning" if late else "ok", found, remedy if late else "")


def _connected(client: paho.Client, host: str, port: int) -> bool:
    client.connect_timeout = _TIMEOUT_S
    try:
        client.connect(host, port, keepalive=10)
        until_s = time.monotonic() + _TIMEOUT_S
        while not client.is_connected() and time.monotonic() < until_s:
            if client.loop(0.1):
                return False
    except OSError:
        return False
    return client.is_connected()
