"""The agent's configuration: one TOML file, overridden by environment variables.

``NIGHTJAR_AGENT_DEVICE`` sets ``device``, ``NIGHTJAR_AGENT_BROKER_HOST`` sets ``host`` in ``[broker]``, and so on
(:mod:`nightjar.host.configuration`). ``__main__`` reads it once; no other module reads configuration files or
variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from nightjar.edge_agent.core.eligibility import DEFAULT_POLICY, Condition, Demand, Policy, quiet_span
from nightjar.edge_agent.emulator.day import DEFAULT_DAY, Day, day_from_toml
from nightjar.edge_agent.enrolment.identity import held_identity
from nightjar.edge_agent.shell.probes.network import Metered
from nightjar.host.configuration import ConfigurationReader, accepted, in_home, parsed_toml, read_settings, read_toml
from nightjar.wire.addresses import is_loopback
from nightjar.wire.errors import ConfigError
from nightjar.wire.identifiers import DeviceId, Population, device_id, population
from nightjar.wire.limits import Limits
from nightjar.wire.signatures import public_key

ENVIRONMENT_PREFIX = "NIGHTJAR_AGENT"
DATA_DIR_VARIABLE = f"{ENVIRONMENT_PREFIX}_DATA_DIR"
KEYBOARD_HOST = "127.0.0.1"
"""Loopback only: anybody who reaches the page can type as this device's user."""

NOT_ENROLLED = "not-enrolled"
"""Name of a device that needs a claim and has none: nobody else ever hears it."""

_DEMO = Population("demo")

Port = Annotated[int, Meta(ge=1, le=65535)]
AnyPort = Annotated[int, Meta(ge=0, le=65535)]
Seconds = Annotated[float, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Rule = Literal[
    "charging",
    "idle",
    "unmetered",
    "battery-high",
    "cool",
    "outside-quiet-hours",
    "steady-power",
    "disk-free",
    "memory-free",
]
"""A condition whose strictness can be configured."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """``[broker]``: address and credentials of the MQTT broker.

    Attributes:
        tls: verified with the system's certificate authorities.
        websocket: MQTT over WebSocket, on ``/mqtt``.
    """

    host: Name = "127.0.0.1"  # nothing leaves the machine
    port: Port = 1883  # registered for MQTT
    username: str = ""  # the device's name: brokers base access on it
    password: str = field(default="", repr=False)
    tls: bool = False  # the default broker is on this machine
    websocket: bool = False  # for networks that let only HTTPS through


@dataclass(frozen=True, slots=True)
class ConditionSettings:
    """``[conditions]``: when the device may train.

    Attributes:
        hysteresis_s: how long the conditions must hold.
        poll_s: interval between readings.
        minimum_battery: least level, 0 to 1, even while charging.
        maximum_temperature_c: of the battery.
        idle_after_s: time since the last typing.
        metered: ``auto``, ``yes`` or ``no``.
        always_powered: no battery, though the system does not say so.
        quiet_hours: local times, such as ``"07:00-09:30"``.
        minimum_free_disk_bytes: on the disk of ``data_dir``.
        minimum_free_memory_bytes: counting our own as free.
        training_memory_bytes: most that training may take, examples included.
        ask_logind: count a person at the screen as use.
        watch_input_devices: count pressed keys as use.
        source: ``linux``, ``termux`` (the phone we run on) or ``adb`` (a phone on a cable; see ``ANDROID_SERIAL``).
        root: folder that holds ``/sys``, ``/proc`` and ``/dev``.
        required: conditions that block if unknown, besides ``charging`` and ``unmetered``.
        ignored: unchecked conditions.
    """

    hysteresis_s: Seconds = 120.0  # 80 instead of 50 % of 3-minute jobs survive
    poll_s: Annotated[float, Meta(ge=0.02, le=60)] = 1.0  # bounds training after a pick-up
    minimum_battery: Share = 0.3  # the user may leave soon
    maximum_temperature_c: Annotated[float, Meta(gt=0)] = 45.0  # batteries age fast above it
    idle_after_s: Seconds = 60.0  # longer than a pause in a conversation
    metered: Metered = "auto"  # NetworkManager, else the kind of interface
    always_powered: bool = False  # /sys usually tells
    quiet_hours: tuple[str, ...] = ()  # other conditions protect the user
    minimum_free_disk_bytes: Count = 200_000_000  # ten times what two versions take
    minimum_free_memory_bytes: Count = 250_000_000  # a session takes up to 180 MB
    training_memory_bytes: Count = 400_000_000  # twice what the keyboard takes; more for many images
    ask_logind: bool = True  # off for desktops without idle hints
    watch_input_devices: bool = True  # never notes which key
    source: Literal["linux", "termux", "adb"] = "linux"  # also on rooted Android
    root: Path = Path("/")  # differs in containers and for emulated phones
    required: tuple[Rule, ...] = ()  # a missing thermometer must not block for ever
    ignored: tuple[Rule, ...] = ()  # for a phone that is always charging

    @property
    def policy(self) -> Policy:
        """How strictly each condition is required, for :func:`nightjar.edge_agent.core.eligibility.judge`.

        Two conditions are always required: learning is not paused, and there is text to train on.
        """
        return {
            **DEFAULT_POLICY,
            **{Condition(name): Demand.REQUIRED for name in self.required},
            **{Condition(name): Demand.IGNORED for name in self.ignored},
        }


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """``[store]``: limits on stored text; the oldest messages go first; and other examples.

    Attributes:
        examples: folder or file of examples for task types other than the keyboard.
        maximum_age_days: age at which a message is deleted.
        forbidden_words: messages with one are never stored; case does not matter.
    """

    maximum_messages: Annotated[int, Meta(ge=1)] = 10_000  # an hour of training on a slow core
    maximum_age_days: Annotated[float, Meta(gt=0)] = 90.0  # habits change; old text is a liability
    forbidden_words: tuple[str, ...] = ()  # for names and secrets
    examples: Path | None = None  # the keyboard learns from typed text


@dataclass(frozen=True, slots=True)
class KeyboardSettings:
    """``[keyboard]``: the keyboard page, on loopback.

    Attributes:
        port: 0 picks a free one.
        model: folder of an exported model, which the keyboard has until the coordinator's arrives.
        personalise: use personal weights where they predict held-out messages better.
    """

    enabled: bool = False  # a page that reads typing
    model: Path | None = None  # the coordinator brings one
    port: AnyPort = 8700  # not registered
    personalise: bool = True  # costs nothing, is never sent


class DeviceLimits(Limits, frozen=True, kw_only=True):
    """``[limits]``: protection that no order of a coordinator may undercut, and of the card.

    Attributes:
        written_mb_per_day: most that the agent writes to the card within 24 hours, in megabytes; then it skips rounds
            and versions.
    """

    written_mb_per_day: Annotated[float, Meta(gt=0)] = 100.0  # a card of 32 GB stands it for decades


@dataclass(frozen=True, slots=True)
class EmulatorSettings:
    """``[emulator]``: makes the agent an emulated phone, marked as one everywhere.

    Attributes:
        messages: file of typed messages, one per line.
        day: scripted day: inline, or the path of a TOML file.
        speed: virtual seconds per real second.
        seed: for jitter, interruptions and training.
        start_hour: virtual hour at the first start.
    """

    messages: Path | None = None  # a person may type instead
    day: Day = DEFAULT_DAY  # charging at night, used by day
    speed: Annotated[float, Meta(gt=0, le=100_000)] = 1.0  # real time
    seed: Annotated[int, Meta(ge=0)] = 0
    start_hour: Annotated[float, Meta(ge=0, lt=24)] = 0.0  # asleep, on the charger


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The complete configuration of an agent.

    Attributes:
        population: the device's fleet.
        device: name, unique in the population.
        coordinator_url: where artifacts are fetched.
        coordinator_key: public key that signs orders, in hex.
        needs_claim: connect to nobody before the device is enrolled.
        owner_key: public key of the device's owner, who signs programs, in hex.
        data_dir: for database and models.
        broker: ``[broker]``.
        conditions: ``[conditions]``.
        store: ``[store]``.
        keyboard: ``[keyboard]``.
        limits: ``[limits]``: minimum protection that no order of a coordinator may undercut.
        emulator: ``[emulator]``; None for a real device.
    """

    device: DeviceId
    data_dir: Path
    population: Population = _DEMO  # demo, as on the coordinator
    coordinator_url: str = "http://127.0.0.1:8080"  # the coordinator's default
    coordinator_key: str = ""  # enrolment provides it; on one machine, the first announced is trusted
    needs_claim: bool = False  # a coordinator on the same machine asks for no claim
    owner_key: str = ""  # a claim may bring it; without one only the programs of the agent's release are computed
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    conditions: ConditionSettings = field(default_factory=ConditionSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    keyboard: KeyboardSettings = field(default_factory=KeyboardSettings)
    limits: DeviceLimits = field(default_factory=DeviceLimits)
    emulator: EmulatorSettings | None = None

    @property
    def connects(self) -> bool:
        """Whether the agent connects to its broker and coordinator; else it is a keyboard and nothing more.

        Raises:
            ConfigError: the device's identity cannot be used.
        """
        return not self.needs_claim or held_identity(self.data_dir) is not None


def load(path: Path, environment: Mapping[str, str]) -> AgentConfig:
    """Read a configuration.

    Args:
        path: TOML file.
        environment: environment variables; those that begin with ``NIGHTJAR_AGENT_`` must name settings.

    Raises:
        ConfigError: the file cannot be read, or settings are wrong; the error lists all of them.
    """
    return load_text(path, read_settings(path, FIRST), environment)


def load_text(path: Path, text: str, environment: Mapping[str, str]) -> AgentConfig:
    """Read a configuration from the text of a file that lies, or lay, at a path.

    Raises:
        ConfigError: settings are wrong; the error lists all of them.
    """
    return _read(path, text, environment, enrols=False)


def check(path: Path, *, enrols: bool) -> None:
    """Check a configuration written for another device, whose systemd unit sets the data folder.

    Args:
        path: TOML file.
        enrols: the device gets its name and all addresses when it enrols.

    Raises:
        ConfigError: the file cannot be read, or settings are wrong; the error lists all of them.
    """
    elsewhere = {DATA_DIR_VARIABLE: "/nowhere/at/all"}
    text = read_settings(path, FIRST)
    _read(path, text, elsewhere | ({f"{ENVIRONMENT_PREFIX}_DEVICE": "enrolled"} if enrols else {}), enrols=enrols)


def _read(path: Path, text: str, environment: Mapping[str, str], *, enrols: bool) -> AgentConfig:
    table = parsed_toml(path, text)
    folder = settings_folder(path)
    reader = ConfigurationReader(folder, environment, ENVIRONMENT_PREFIX, _CHECKS, _MISSING)
    enrolled = _take_identity(reader, folder, table) or enrols
    if str(reader.text_of("needs_claim", table)).lower() == "true":
        table.setdefault("device", NOT_ENROLLED)
    _take_day(reader, folder, table)
    config = reader.read(AgentConfig, table)
    reader.note_unknown_variables(AgentConfig)
    if config is not None and not reader.faults:
        reader.faults += _in_the_open(config, enrolled=enrolled)
    return accepted(path, config, reader.faults)


def data_dir_of(path: Path, environment: Mapping[str, str]) -> Path:
    """Read only ``data_dir``: a device that is not enrolled yet has no complete configuration.

    The file is not needed where the environment says it, as that of the service does.

    Raises:
        ConfigError: the file cannot be read, or does not set ``data_dir``.
    """
    data_dir: object = environment.get(DATA_DIR_VARIABLE)
    if data_dir is None:
        data_dir = read_toml(path, FIRST).get("data_dir")
    if not isinstance(data_dir, str) or not data_dir:
        msg = f"{path}: data_dir: is missing{_MISSING['data_dir']}"
        raise ConfigError(msg)
    return settings_folder(path) / in_home(data_dir)


def settings_folder(path: Path) -> Path:
    """The folder that relative paths in a file of settings begin at, even if the file is a link to itself."""
    try:
        return path.resolve().parent
    except (OSError, RuntimeError):
        return path.absolute().parent


def _take_identity(reader: ConfigurationReader, folder: Path, table: dict[str, Any]) -> bool:
    """Fill missing settings from the device's enrolment; return whether it is enrolled."""
    data_dir = reader.text_of("data_dir", table)
    if not isinstance(data_dir, str):
        return False
    try:
        identity = held_identity(folder / in_home(data_dir))
    except ConfigError as error:
        reader.faults.append(str(error))
        return True
    if identity is None:
        return False
    for name, enrolled in (("device", identity.device), ("population", identity.population)):
        configured = reader.text_of(name, table)
        if configured not in (None, enrolled):
            reader.faults.append(
                f"{name}: this device is enrolled as {enrolled!r}, got {configured!r}; remove the line"
            )
        table[name] = enrolled
    table.setdefault("coordinator_url", identity.coordinator_url)
    table.setdefault("coordinator_key", identity.coordinator_key)
    table.setdefault("owner_key", identity.owner_key)
    broker = table.setdefault("broker", {})
    if isinstance(broker, dict):
        told = {
            "host": identity.broker_host,
            "port": identity.broker_port,
            "websocket": identity.broker_websocket,
        }
        table["broker"] = {**told, **broker}
    return True


def _take_day(reader: ConfigurationReader, folder: Path, table: dict[str, Any]) -> None:
    """Load the emulated day if it is given as the path of a file."""
    emulator = table.get("emulator")
    if not isinstance(emulator, dict) or not isinstance(emulator.get("day"), str):
        return
    path = folder / emulator.pop("day")
    try:
        emulator["day"] = day_from_toml(path.read_text(encoding="utf-8"), "emulator.day")
    except (OSError, UnicodeDecodeError) as error:
        reader.faults.append(f"emulator.day: expected a TOML file, got: {path}: {error}")
    except ConfigError as error:
        reader.faults.append(str(error))


FIRST = "'nightjar-agent example' prints one to begin with"
_ENROL = ", or enrol this device with a claim: nightjar-agent enrol"
_MISSING = {
    "device": f'; add a line such as device = "phone-01"{_ENROL}',
    "data_dir": '; add a line such as data_dir = "data"',
}


def _in_the_open(config: AgentConfig, *, enrolled: bool) -> list[str]:
    """Faults that would let others read the traffic or impersonate the coordinator."""
    url, broker = urlsplit(config.coordinator_url), config.broker
    served_here, broker_here = is_loopback(url.hostname or ""), is_loopback(broker.host)
    faults = []
    if url.scheme == "http" and not served_here:
        faults.append(f"coordinator_url: plain text stays on 127.0.0.1; use https, got {config.coordinator_url!r}")
    if enrolled:
        return faults
    if not broker.tls and not broker_here:
        faults.append(f"broker.tls: plain text stays on 127.0.0.1, and {broker.host} is elsewhere{_ENROL}")
    if not config.coordinator_key and not (served_here and broker_here):
        faults.append(
            "coordinator_key is missing: 'nightjar-coordinator model key' shows it; beyond this machine the first key "
            f"that is announced may be anybody's{_ENROL}"
        )
    return faults


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        msg = f"expected a URL such as http://127.0.0.1:8080, got {text[:80]!r}"
        raise ValueError(msg)
    return text.rstrip("/")


def _key(text: str) -> str:
    return public_key(text) if text else ""


def _spans(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        quiet_span(text)
    return texts


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "device": device_id,
    "population": population,
    "coordinator_url": _url,
    "coordinator_key": _key,
    "owner_key": _key,
    "conditions.quiet_hours": _spans,
}
