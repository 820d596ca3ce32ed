"""Configuration of the demo: settings, defaults of each model, free ports, and a TOML table for each process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from nightjar.coordinator.mqtt import free_ports as anywhere
from nightjar.coordinator.tls.files import SERVICE_USER
from nightjar.models.configurations import CONFIGURATIONS
from nightjar.models.ngram import NgramRecall
from nightjar.wire.errors import ConfigError

LOOPBACK = "127.0.0.1"
LIMITS = {"household": True, "density": 1.0}
"""Without privacy limits, because all phones are emulated and users of the demo try every codec."""
GOAL_SHARE = 0.6
"""A round's goal of reports, as a share of the phones: more are seldom idle together."""
MOST_REPORTS = 24
"""Maximum goal of a round: one machine trains for all phones, so a larger goal only takes longer."""
HELD_OUT = "held_out.tsv"
"""File of the phones' held-out messages, in the folder of the run."""
LONGEST_SELECTION = 0.4
"""Share of the emulated day that a round waits: longer than the hours in which no phone is eligible."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """Settings from the command line; see ``python -m nightjar.simulation demo --help``."""

    phones: int
    rounds: int
    model: str
    corpus: str
    seed: int
    codec: str
    density: float
    day_s: float | None = None
    folder: Path | None = None
    port: int = 0
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Defaults:
    """Settings of one model configuration.

    The first version is that of ``models export``, phones train as the product's default task says
    (docs/adr/0006-demo-settings.md), and their updates are sampled at 5 %, as for each size of a fleet
    (docs/adr/0057-settings-by-size.md). Everything is small and quick.
    """

    messages: int  # maximum number of messages per phone, held-out ones included
    public_messages: int  # maximum number of public messages that the first version is trained on
    report_deadline_s: float  # real seconds for training and reporting
    round_limit_s: float  # real seconds per round after which the demo gives up
    day_s: float  # real seconds of a phone's day


DEFAULTS = {
    # Half a minute longer than a phone that loses its conditions may take to report what it has.
    "tiny": Defaults(2_000, 20_000, report_deadline_s=90.0, round_limit_s=90.0, day_s=60.0),
    "gboard": Defaults(1_000, 8_000, report_deadline_s=240.0, round_limit_s=400.0, day_s=300.0),
}
DEFAULTS |= {shape.name: DEFAULTS[shape.family] for shape in CONFIGURATIONS.values()}


@dataclass(frozen=True, slots=True)
class DemoPorts:
    """Ports on loopback: the page, the phones' HTTPS, the first phone's keyboard, and the broker.

    The broker listens on ``broker`` for phones and on ``service`` for the coordinator.
    """

    page: int
    artifacts: int
    keyboard: int
    broker: int
    service: int


def free_ports(page: int) -> DemoPorts:
    """Find free ports, the usual ones if possible; ``page`` is that of the page, or 0 for any.

    Raises:
        ConfigError: the requested port is taken.
    """
    if page and not anywhere.reserve(page):
        msg = f"port {page} is taken: stop the program that listens there, or give another --port (0 finds a free one)"
        raise ConfigError(msg)

    def choose(usual: int) -> int:
        return usual if anywhere.reserve(usual) else anywhere.free_ports(1)[0]

    return DemoPorts(
        page=page or choose(8080),
        artifacts=choose(8443),
        keyboard=choose(8700),
        broker=choose(18_830),
        service=choose(18_831),
    )


def phone_name(number: int) -> str:
    """The device name of phone ``number``, from 0; it does not identify the user.

    >>> phone_name(0)
    'phone-01'
    """
    return f"phone-{number + 1:02d}"


def coordinator_table(
    settings: DemoSettings, defaults: Defaults, ports: DemoPorts, trigram: NgramRecall
) -> dict[str, Any]:
    """The coordinator's configuration; see ``docs/configuration.md``."""
    broker = {"kind": "external", "host": LOOPBACK, "port": ports.broker, "username": "coordinator"}
    if not settings.plain:
        broker |= {"port": ports.service, "device_port": ports.broker, "username": SERVICE_USER}
    goal = min(max(2, math.ceil(settings.phones * GOAL_SHARE)), MOST_REPORTS)
    return {
        "population": "demo",
        "data_dir": "coordinator",
        "host": LOOPBACK,
        # Browsers do not know this run's certificate authority, so the page has a port without certificates.
        **({"port": ports.page} if settings.plain else {"port": ports.artifacts, "page_port": ports.page}),
        "seed": settings.seed,
        "transport": "plain" if settings.plain else "tls",
        "broker": broker,
        "task": {
            "name": "keyboard",
            "model": "model",
            "evaluation_text": HELD_OUT,
            "rounds": settings.rounds,
            "patience": 0,  # the run ends after its rounds, whatever they gain
            "goal": goal,
            "minimum": max(2, goal // 2),
            "over_selection": 1.3,
            "selection_deadline_s": min(120.0, max(15.0, LONGEST_SELECTION * (settings.day_s or defaults.day_s))),
            "selection_window_s": 0.25,
            "retry_after_s": 1.0,
            "report_deadline_s": defaults.report_deadline_s,
            "codec": {"name": settings.codec, "density": settings.density},
            "baseline": {"label": "trigram", "top1": trigram.top1, "top3": trigram.top3},
        },
        "limits": LIMITS,
    }


def phone_table(
    settings: DemoSettings, number: int, ports: DemoPorts, speed: float, owner_key: str = ""
) -> dict[str, Any]:
    """The configuration of phone ``number``, from 0; ``speed`` is virtual seconds per real second."""
    where: dict[str, Any] = {
        "population": "demo",
        "coordinator_url": f"http://{LOOPBACK}:{ports.page}",
        "broker": {"host": LOOPBACK, "port": ports.broker, "username": phone_name(number)},
    }
    return {
        "device": phone_name(number),
        "data_dir": "data",
        **({"owner_key": owner_key} if owner_key else {}),
        **(where if settings.plain else {}),  # an enrolled phone knows them already
        # The day is accelerated, and so are the waits; reading the conditions is cheap.
        "conditions": {"hysteresis_s": min(120.0, 120.0 * 15 / speed + 0.3), "poll_s": 0.1},
        "keyboard": {"enabled": number == 0, "port": ports.keyboard},
        "limits": LIMITS,
        "emulator": {
            "messages": "messages.txt",
            "speed": speed,
            "seed": settings.seed * 1_000 + number,
            "start_hour": 22.0,
        },
    }


def write_toml(path: Path, table: dict[str, Any]) -> Path:
    """Write a configuration file; returns its path."""
    path.write_text(tomli_w.dumps(table), encoding="utf-8")
    return path
