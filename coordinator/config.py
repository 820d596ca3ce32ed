"""The coordinator's configuration: one frozen type, with the reason for each default.

:mod:`nightjar.coordinator.config_reader` reads the file, and :mod:`nightjar.coordinator.config_file` checks it, too.
``coordinator/example.toml`` shows every field.
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from nightjar.coordinator.tasks.settings import Name, TaskSettings
from nightjar.coordinator.versions.retention_policy import RetentionPolicy
from nightjar.coordinator.versions.trial_policy import TrialPolicy
from nightjar.models.folder import HELD_OUT
from nightjar.wire.addresses import is_loopback
from nightjar.wire.limits import Limits

S3Url = Annotated[
    str,
    Meta(
        pattern=r"^(s3://[a-z0-9.-]{3,63}(/[A-Za-z0-9._/-]*)?)?$(?!\n)", description="s3://BUCKET or s3://BUCKET/PREFIX"
    ),
]
ServerName = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9.:-]{1,253}$(?!\n)", description="DNS names and addresses without a port")
]
Port = Annotated[int, Meta(ge=1, le=65535)]


class BrokerKind(enum.Enum):
    """Who runs the MQTT broker."""

    AUTO = "auto"
    """mosquitto if it is installed, else the embedded broker."""
    MOSQUITTO = "mosquitto"
    EMBEDDED = "embedded"
    EXTERNAL = "external"
    """The operator runs the broker; the coordinator only connects."""


class TransportSecurity(enum.Enum):
    """Who encrypts the traffic between devices and the coordinator."""

    TLS = "tls"
    """The coordinator encrypts, and devices present certificates (docs/enrolment.md)."""
    PLAIN = "plain"
    """No encryption; only on the loopback address."""
    PROXIED = "proxied"
    """The operator's proxy and broker encrypt; the coordinator talks plain text to them, on any address."""


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[broker]``: the MQTT broker."""

    kind: BrokerKind = BrokerKind.AUTO  # mosquitto if installed, else embedded
    host: str = "127.0.0.1"  # nothing is open to a network
    port: Port = 1883  # registered for MQTT
    username: str = "nightjar"  # the embedded broker keeps sessions only for named clients
    password: str = ""  # with TLS, a new one at each start; else any name may connect on loopback
    allow_network: bool = False  # beyond loopback only by explicit choice
    device_host: str = ""  # ``host``, or the coordinator's where that is loopback
    device_port: Port | None = None  # ``port``; differs on some external brokers
    device_websocket: bool = False  # WebSocket passes where only HTTPS does
    reload_command: tuple[str, ...] = ()  # an external broker learns of revocations when it restarts

    @property
    def port_for_devices(self) -> int:
        """Where devices connect."""
        return self.device_port or self.port


class BaselineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.baseline]``: figures measured elsewhere, shown as a line in the charts.

    They are those of a simple model, such as a trigram model. A measurement with ``nightjar-coordinator model
    baseline`` replaces them.
    """

    label: Annotated[str, Meta(min_length=1, max_length=60)]
    top1: Annotated[float, Meta(ge=0, le=1)]
    top3: Annotated[float, Meta(ge=0, le=1)]


class TaskConfig(TaskSettings, frozen=True, kw_only=True):
    """``[task]`` of the file: the first task, its model and its evaluation text."""

    model: Path  # folder written by ``python -m nightjar.models export``
    evaluation_text: Path | None = None  # the model's own; a text like the devices' is better
    baseline: BaselineConfig | None = None

    @property
    def measured_in_public(self) -> bool:
        """Whether versions are measured on the public text that came with the model."""
        return self.evaluation_text == self.model / HELD_OUT

    def settings(self) -> TaskSettings:
        """The settings that every task has."""
        return TaskSettings(**{name: getattr(self, name) for name in TaskSettings.__struct_fields__})


class EnrolmentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[enrolment]``: certificates of devices and servers, with ``transport = "tls"``.

    Attributes:
        names: further DNS names and addresses in the server certificate.
        device_days: validity of a device's certificate, renewed after two thirds.
        renew_expired_days: how long after its end a certificate is renewed for whoever proves its key.
        signer: command that answers like 'authority serve'.
    """

    names: tuple[ServerName, ...] = ()  # only browsers check them
    device_days: Annotated[float, Meta(gt=0, le=825)] = 90.0  # limits the use of a stolen card
    renew_expired_days: Annotated[float, Meta(ge=0, le=3650)] = 400.0  # a year in a drawer is no reason for a visit
    signer: tuple[str, ...] = ()  # a child process: a household has only one machine


class LogLevel(enum.Enum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


class LogFormat(enum.Enum):
    """The format of log lines."""

    LOGFMT = "logfmt"
    """``event=round_opened round=3``."""
    JSON = "json"


class CoordinatorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration."""

    task: TaskConfig
    database_url: str = ""  # SQLite in data_dir; or a postgresql:// URL
    artifacts_url: S3Url = ""  # data_dir, or PostgreSQL; or s3://bucket/prefix
    data_dir: Path = Path("nightjar-coordinator")  # beside the configuration file
    population: Name = "demo"  # one keyboard, one population
    host: str = "127.0.0.1"  # the status page is not for strangers
    port: Port = 8080  # usual for unprivileged web services
    page_port: Annotated[int, Meta(ge=0, le=65535)] = 0  # port of unencrypted pages: none
    public_reading: bool | None = None  # reading without a token: on loopback, for this user and root
    trusted_proxy: str = ""  # whose X-Forwarded-For is trusted: nobody's
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 7  # any fixed number makes runs comparable; draws use a secret
    shards: Annotated[int, Meta(ge=1, le=1024)] = 1  # handles thousands of reports a second
    log: LogLevel = LogLevel.INFO  # about ten lines a round
    log_format: LogFormat = LogFormat.LOGFMT  # readable; log collectors may want json
    transport: TransportSecurity = TransportSecurity.TLS  # encrypted unless chosen otherwise; or plain, proxied
    broker: BrokerConfig = BrokerConfig()
    rollout: TrialPolicy = TrialPolicy()
    retention: RetentionPolicy = RetentionPolicy()
    enrolment: EnrolmentConfig = EnrolmentConfig()
    limits: Limits = Limits()

    @property
    def proxied(self) -> bool:
        """Whether a proxy stands between the coordinator and its clients."""
        return bool(self.trusted_proxy) or self.transport is TransportSecurity.PROXIED

    @property
    def tls(self) -> bool:
        """Whether the coordinator encrypts and devices present certificates."""
        return self.transport is TransportSecurity.TLS

    @property
    def url(self) -> str:
        """URL of the HTTP server, as reached from this machine."""
        here = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)  # noqa: S104 - compared only
        return f"{'https' if self.tls else 'http'}://{here}:{self.port}"

    @property
    def page_url(self) -> str:
        """URL of the pages, for a browser on this machine."""
        return f"http://127.0.0.1:{self.page_port}" if self.page_port else self.url

    @property
    def page_host(self) -> str:
        """Address of the unencrypted pages: this machine's own, unless a proxy elsewhere encrypts them."""
        return self.host if self.trusted_proxy and not is_loopback(self.trusted_proxy) else "127.0.0.1"
