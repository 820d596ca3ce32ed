"""The checks of ``doctor --deployment``: a running deployment as its devices meet it, from outside.

Read-only but for three connections to the broker, under client ids that nobody else uses.
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
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties

from nightjar.coordinator.commands.checkup import CheckupFinding, free_space, graded
from nightjar.coordinator.commands.stored import opened
from nightjar.coordinator.config import BrokerKind, CoordinatorConfig
from nightjar.coordinator.tasks.schedule import DAY_S
from nightjar.coordinator.tls.contexts import client_context, http_pool
from nightjar.coordinator.tls.files import names_of, url_for_devices
from nightjar.coordinator.views.words import duration
from nightjar.wire import topics
from nightjar.wire.errors import NightjarError
from nightjar.wire.frame import MAX_PUBLISH_BYTES
from nightjar.wire.identifiers import Population

BACKUP = "backup"
"""Action in the audit log of a backup."""
_BACKUPS_AFTER_S = 7 * DAY_S
_ENDS_SOON_S = 10 * DAY_S
_CLOCK_OFF_S = 10.0
"""Devices check the dates of signed orders (docs/adr/0036-signed-orders.md)."""
_TIMEOUT_S = 5.0
_HTTPS = 443
_IN_FLIGHT = 100
"""Messages under way to the coordinator below which it waits for round trips (docs/brokers.md)."""
_RETAINED_S = 1.5
"""How long the broker may take to send what it retains."""


def check_deployment(config: CoordinatorConfig, now_s: float) -> Iterator[CheckupFinding]:
    """Check the service, its broker, its certificates and its backups."""
    yield from _service(config, now_s)
    if config.tls:
        yield _certificate("https", config.host, config.port, config, now_s)
        yield _certificate("broker", config.broker.host, config.broker.port_for_devices, config, now_s)
        yield from _front(config, now_s)
        yield _strangers(config)
    if config.broker.kind is BrokerKind.EXTERNAL:
        yield from _limits(config)
    yield _retained(config)
    yield free_space("disk", config.data_dir)
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
    level = "fault" if abs(sent - now_s) > _CLOCK_OFF_S else "ok"
    yield graded("clock", level, off, "set both by NTP: devices refuse orders from the future")
    if limits:
        found = f"devices got past its limits of {', '.join(map(str, limits))}"
        yield CheckupFinding("broker", "warning", found, "configure them as docs/brokers.md says")


def _front(config: CoordinatorConfig, now_s: float) -> Iterator[CheckupFinding]:
    """The address that claims carry, and the certificate that a proxy shows to browsers there."""
    url = url_for_devices(config)
    if url != config.url:
        try:
            with http_pool(config) as pool:
                pool.request("GET", f"{url}/healthz", timeout=_TIMEOUT_S, retries=False)
        except (urllib3.exceptions.HTTPError, NightjarError) as error:
            remedy = "forward that port to this coordinator, TLS included, or change enrolment.names"
            found = f"from here no coordinator of ours answers at {url}, where devices enrol: {error}"
            yield CheckupFinding("service", "warning", found, remedy)
        else:
            yield CheckupFinding("service", "ok", f"{url} answers, where devices enrol")
    if not config.trusted_proxy:
        return
    name, where = names_of(config)[0], f"pages, {names_of(config)[0]} port {_HTTPS}"
    try:
        with (
            socket.create_connection((name, _HTTPS), timeout=_TIMEOUT_S) as plain,
            ssl.create_default_context().wrap_socket(plain, server_hostname=name) as secured,
        ):
            yield _ending(where, secured, now_s, "renew it, and reload the proxy")
    except OSError as error:
        yield CheckupFinding("certificates", "warning", f"{where}: {error}", "browsers do not show the pages")


def _certificate(what: str, host: str, port: int, config: CoordinatorConfig, now_s: float) -> CheckupFinding:
    where = f"{what}, {host} port {port}"
    try:
        with (
            socket.create_connection((host, port), timeout=_TIMEOUT_S) as plain,
            client_context(config).wrap_socket(plain, server_hostname=host) as secured,
        ):
            return _ending(where, secured, now_s, "the service renews it: read its log; reload an own broker")
    except (OSError, NightjarError) as error:
        remedy = "start it, or give it a certificate of this coordinator's authority ('authority prepare')"
        return CheckupFinding("certificates", "fault", f"{where}: {error}", remedy)


def _ending(where: str, secured: ssl.SSLSocket, now_s: float, remedy: str) -> CheckupFinding:
    certificate = secured.getpeercert() or {}
    left_s = ssl.cert_time_to_seconds(str(certificate["notAfter"])) - now_s
    level = "warning" if left_s < _ENDS_SOON_S else "ok"
    return graded("certificates", level, f"{where}: ends in {duration(left_s)}", remedy)


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


def _limits(config: CoordinatorConfig) -> Iterator[CheckupFinding]:
    """The limits that a broker tells clients of MQTT 5; nothing where it does not speak it."""
    told: dict[str, int] = {}

    def connected(
        _client: object, _data: object, _flags: object, _reason: object, properties: Properties | None
    ) -> None:
        told.update(vars(properties) if properties is not None else {})

    client = _service_client(config, "limits", paho.MQTTv5)
    client.on_connect = connected
    if not _connected(client, config.broker.host, config.broker.port):
        return
    client.disconnect()
    for name, setting, least, most in (
        ("MaximumPacketSize", "max_packet_size", MAX_PUBLISH_BYTES, 16 * MAX_PUBLISH_BYTES),
        ("ReceiveMaximum", "max_inflight_messages", _IN_FLIGHT, 65535),
    ):
        value = told.get(name)
        level = "ok" if value is not None and least <= value <= most else "warning"
        found = f"its {setting} is {value or 'unlimited'}"
        yield graded("broker", level, found, "docs/brokers.md says which value, and why")


def _retained(config: CoordinatorConfig) -> CheckupFinding:
    """What the broker retains beside the announcement and the statuses of devices."""
    broker, where = config.broker, Population(config.population)
    if broker.kind is not BrokerKind.EXTERNAL and config.tls:
        found = "messages that it retains were not looked at: only the service knows its broker's password"
        return CheckupFinding("broker", "ok", found)
    odd: set[str] = set()
    client = _service_client(config, "retained", paho.MQTTv311)
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
    first = "pg_dump, then " if config.database_url else ""
    remedy = f"{first}nightjar-coordinator backup FOLDER, each night"
    try:
        with opened(config) as database, database.transaction() as view:
            last_s = view.last_audited(BACKUP)
    except NightjarError as error:
        return CheckupFinding("backup", "fault", str(error), "run this where the service runs")
    if last_s is None:
        return CheckupFinding("backup", "warning", "there never was a backup", remedy)
    level = "warning" if now_s - last_s > _BACKUPS_AFTER_S else "ok"
    return graded("backup", level, f"the last backup was {duration(now_s - last_s)} ago", remedy)


def _service_client(config: CoordinatorConfig, purpose: str, protocol: MQTTProtocolVersion) -> paho.Client:
    client = paho.Client(CallbackAPIVersion.VERSION2, f"doctor-{purpose}-{os.getpid()}", protocol=protocol)
    client.username_pw_set(config.broker.username, config.broker.password or None)
    if config.tls:
        client.tls_set_context(client_context(config))
    return client


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
