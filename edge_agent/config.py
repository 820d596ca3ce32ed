"""What the person who starts an agent can set: one TOML file, and environment variables over it.

``NIGHTJAR_AGENT_DEVICE`` sets ``device``, ``NIGHTJAR_AGENT_BROKER_HOST`` sets ``host`` in ``[broker]``, and so on
(:mod:`host.configuration`). Read once, by ``__main__``; nothing else looks at files or variables of configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from edge_agent.core.eligibility import DEFAULT_POLICY, Condition, Demand, Policy, quiet_span
from edge_agent.emulator.day import DEFAULT_DAY, Day, day_from_toml
from edge_agent.enrolment.identity import held_identity
from edge_agent.shell.probes.network import Metered
from host.configuration import ConfigurationReader, accepted, read_toml
from wire.addresses import is_loopback
from wire.errors import ConfigError
from wire.identifiers import DeviceId, Population, device_id, population
from wire.limits import Limits
from wire.signatures import public_key

ENVIRONMENT_PREFIX = "NIGHTJAR_AGENT"
KEYBOARD_HOST = "127.0.0.1"
"""Anybody who reaches the page can type as this device's user."""

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
"""A condition of which a person may say how strictly it is asked for."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """``[broker]``: where the MQTT broker is.

    Attributes:
        host: name or address.
        port: TCP port.
        username: empty takes the device's name.
        password: empty for none.
        tls: encrypt, and verify with the system's certificate authorities.
    """

    host: Name = "127.0.0.1"  # nothing leaves the machine unless somebody says so
    port: Port = 1883  # MQTT's registered port
    username: str = ""  # brokers keep a session for a name, and access rules go by it
    password: str = field(default="", repr=False)
    tls: bool = False  # the default broker is on the same machine


@dataclass(frozen=True, slots=True)
class ConditionSettings:
    """``[conditions]``: when the device may train, and how that is found out.

    Attributes:
        hysteresis_s: eligible without a break for so long.
        poll_s: how often the conditions are looked at.
        minimum_battery: share of a full battery, also while charging; a device without a battery is on mains.
        maximum_temperature_c: of the battery.
            idle_after_s: not in use if nothing was typed for so long.
                metered: whether the network costs money: ``auto`` finds out, ``yes``, ``no``.
        always_powered: a device without a battery that does not say so.
        quiet_hours: spans of the local day without training, such as ``"07:00-09:30"``.
        minimum_free_disk_bytes: where ``data_dir`` is.
        minimum_free_memory_bytes: that programs could get, what we hold ourselves included.
        ask_logind: somebody at the device's own screen is use.
        watch_input_devices: a pressed key is use, where we may read ``/dev/input``.
        source: what is asked: this machine (``linux``), the phone we run on (``termux``), one on a cable (``adb``).
        adb_serial: of that phone; empty takes the only one.
        root: where ``/sys``, ``/proc`` and ``/dev`` are looked for.
        required: conditions that must be known to hold, beside ``charging`` and ``unmetered``.
        ignored: conditions that are not asked for.
    """

    hysteresis_s: Seconds = 120.0  # lifts the survival of a 3-minute job from 0.50 to 0.80 on real traces
    poll_s: Annotated[float, Meta(ge=0.02, le=60)] = 1.0  # somebody who picks up the phone waits no longer than that
    minimum_battery: Share = 0.3  # a person who unplugs must be able to leave
    maximum_temperature_c: float = 45.0  # batteries age fast above it; Android throttles there
    idle_after_s: Seconds = 60.0  # shorter than a pause in a conversation would train into it
    metered: Metered = "auto"  # NetworkManager knows; without it the kind of interface tells
    always_powered: bool = False  # /sys tells, where there is one
    quiet_hours: tuple[str, ...] = ()  # the other conditions protect the person already
    minimum_free_disk_bytes: Count = 200_000_000  # two versions of the model and its programs, ten times over
    minimum_free_memory_bytes: Count = 250_000_000  # a session takes up to 180 MB
    ask_logind: bool = True  # switch off for a desktop that never sets its idle hint
    watch_input_devices: bool = True  # only that something was pressed is noticed, never what
    source: Literal["linux", "termux", "adb"] = "linux"  # also right on Android with root
    adb_serial: str = ""  # one phone is the commonest case
    root: Path = Path("/")  # elsewhere in a container, for tests, and for an emulated phone
    required: tuple[Rule, ...] = ()  # a missing thermometer, battery driver or clock must not block for ever
    ignored: tuple[Rule, ...] = ()  # a board without a fan guard, a phone that lies always on its charger

    @property
    def policy(self) -> Policy:
        """How strictly each condition is asked for, for :func:`edge_agent.core.eligibility.judge`.

        That the person did not pause learning, and that there is something to train on, is always required.
        """
        return {
            **DEFAULT_POLICY,
            **{Condition(name): Demand.REQUIRED for name in self.required},
            **{Condition(name): Demand.IGNORED for name in self.ignored},
        }


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """``[store]``: how much typed text is kept; the oldest goes first.

    Attributes:
        maximum_messages: number.
            maximum_age_days: a message is forgotten after so long.
                forbidden_words: a message with one of them is never kept; case does not matter.
    """

    maximum_messages: Annotated[int, Meta(ge=1)] = 10_000  # an hour of training on a slow core
    maximum_age_days: Annotated[float, Meta(gt=0)] = 90.0  # habits change, and old text is a liability
    forbidden_words: tuple[str, ...] = ()  # names and words that the person does not want to lie on a disk


@dataclass(frozen=True, slots=True)
class KeyboardSettings:
    """``[keyboard]``: the demo keyboard, on this machine's loopback address.

    Attributes:
        enabled: serve it.
        port: TCP port; 0 takes a free one.
        personalise: keep weights of this device's own where they foresee its own held-out messages better.
    """

    enabled: bool = False  # a page that reads what is typed is opened on purpose
    port: AnyPort = 8700  # none that is registered
    personalise: bool = True  # it costs nothing more, is used only where it is better, and is never sent


@dataclass(frozen=True, slots=True)
class EmulatorSettings:
    """``[emulator]``: this agent is an emulated phone, and says so everywhere.

    Attributes:
        messages: text file with one message a line, typed by the phone's person.
        day: its scripted day: inline, or the path of a TOML file.
        speed: virtual seconds in a real one.
        seed: of the day's jitter and interruptions, and of training.
        start_hour: hour of the day at its first start.
    """

    messages: Path | None = None  # somebody may type on its keyboard instead
    day: Day = DEFAULT_DAY
    speed: Annotated[float, Meta(gt=0, le=100_000)] = 1.0  # real time unless asked for
    seed: Annotated[int, Meta(ge=0)] = 0
    start_hour: Annotated[float, Meta(ge=0, lt=24)] = 0.0  # asleep, on the charger


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Everything that can be set.

    Attributes:
        population: the fleet that this device belongs to.
        device: its name, unique in the population.
        coordinator_url: where artifacts are fetched.
        coordinator_key: public key that signs models, in hex; empty keeps the first that is announced on this machine.
        data_dir: folder for the database and the models.
        broker: ``[broker]``.
        conditions: ``[conditions]``.
        store: ``[store]``.
        keyboard: ``[keyboard]``.
        limits: ``[limits]``: what no coordinator can have less of.
        emulator: ``[emulator]``; None for a real device.
    """

    device: DeviceId
    data_dir: Path
    population: Population = _DEMO  # the coordinator's default
    coordinator_url: str = "http://127.0.0.1:8080"  # the coordinator's default
    coordinator_key: str = ""  # who enrols is told; on one machine nobody comes between; elsewhere it must be said
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    conditions: ConditionSettings = field(default_factory=ConditionSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    keyboard: KeyboardSettings = field(default_factory=KeyboardSettings)
    limits: Limits = field(default_factory=Limits)
    emulator: EmulatorSettings | None = None


def load(path: Path, environment: Mapping[str, str]) -> AgentConfig:
    """Read a configuration.

    Args:
        path: TOML file.
        environment: variables; those that begin with ``NIGHTJAR_AGENT_`` must be settings.

    Raises:
        ConfigError: the file cannot be read, or some settings are wrong: all of them are listed.
    """
    return _read(path, environment, enrols=False)


def check(path: Path, *, enrols: bool) -> None:
    """Return if a device that is not this machine could use a configuration, whose data folder its unit says.

    Args:
        path: TOML file.
        enrols: it is told its name, and where everything is, when it enrols.

    Raises:
        ConfigError: as :func:`load`.
    """
    elsewhere = {f"{ENVIRONMENT_PREFIX}_DATA_DIR": "/nowhere/at/all"}
    _read(path, elsewhere | ({f"{ENVIRONMENT_PREFIX}_DEVICE": "enrolled"} if enrols else {}), enrols=enrols)


def _read(path: Path, environment: Mapping[str, str], *, enrols: bool) -> AgentConfig:
    table = read_toml(path, _FIRST)
    folder = path.resolve().parent
    reader = ConfigurationReader(folder, environment, ENVIRONMENT_PREFIX, _CHECKS, _MISSING)
    enrolled = _take_identity(reader, folder, table) or enrols
    _take_day(reader, folder, table)
    config = reader.read(AgentConfig, table)
    reader.note_unknown_variables(AgentConfig)
    if config is not None and not reader.faults:
        reader.faults += _in_the_open(config, enrolled=enrolled)
    return accepted(path, config, reader.faults)


def data_dir_of(path: Path, environment: Mapping[str, str]) -> Path:
    """Only ``data_dir``, of a device that is not enrolled yet and so cannot be configured as a whole.

    Raises:
        ConfigError: the file cannot be read, or says no such folder.
    """
    table = read_toml(path, _FIRST)
    said = ConfigurationReader(path.parent, environment, ENVIRONMENT_PREFIX).text_of("data_dir", table)
    if not isinstance(said, str) or not said:
        msg = f"{path}: data_dir: is missing{_MISSING['data_dir']}"
        raise ConfigError(msg)
    return path.resolve().parent / said


def _take_identity(reader: ConfigurationReader, folder: Path, table: dict[str, Any]) -> bool:
    """What a device was told when it enrolled counts where the file says nothing; whether it did enrol."""
    data_dir = reader.text_of("data_dir", table)
    if not isinstance(data_dir, str):
        return False
    try:
        identity = held_identity(folder / data_dir)
    except ConfigError as error:
        reader.faults.append(str(error))
        return True
    if identity is None:
        return False
    for name, enrolled in (("device", identity.device), ("population", identity.population)):
        said = reader.text_of(name, table)
        if said not in (None, enrolled):
            reader.faults.append(f"{name}: this device is enrolled as {enrolled!r}, got {said!r}; remove the line")
        table[name] = enrolled
    table.setdefault("coordinator_url", identity.coordinator_url)
    table.setdefault("coordinator_key", identity.coordinator_key)
    broker = table.setdefault("broker", {})
    if isinstance(broker, dict):
        table["broker"] = {"host": identity.broker_host, "port": identity.broker_port, **broker}
    return True


def _take_day(reader: ConfigurationReader, folder: Path, table: dict[str, Any]) -> None:
    """A day may be a file of its own."""
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


_FIRST = "'nightjar-agent example' prints one to begin with"
_ENROL = ", or enrol this device with a claim: nightjar-agent enrol"
_MISSING = {
    "device": f'; add a line such as device = "phone-01"{_ENROL}',
    "data_dir": '; add a line such as data_dir = "data"',
}


def _in_the_open(config: AgentConfig, *, enrolled: bool) -> list[str]:
    """Settings with which traffic could be read on the network, or an impostor be believed."""
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
    "conditions.quiet_hours": _spans,
}
