"""The answers that describe a new fleet, and what follows from them for its coordinator, its devices and its cards."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from nightjar.wire.errors import ConfigError

STRANGERS = 10
"""From so many devices on a fleet keeps the usual ``[limits]``; a smaller one is a household (docs/privacy.md)."""
MOST_DEVICES = 1_000
FEW, MANY = 50, 1_000
"""With so many devices a fleet has hundreds of people, or thousands; with fewer it takes small steps, as a household
does, because few people's words are soon learned by heart."""
MOST_REPORTS = 20
"""Of a round of a fleet with few devices."""
_ABOUT = "# The answers to 'nightjar-firmware new-fleet'; flash, customise and twin read them with --fleet."


@dataclass(frozen=True, slots=True)
class Board:
    """A kind of device."""

    platform: str  # of its bundle
    image: str  # where its image comes from: a web page, or a board of ``nightjar-firmware image``
    file: str  # a name for it


_PI = "https://www.raspberrypi.com/software/operating-systems/"
BOARDS: Mapping[str, Board] = {
    "raspberry-pi": Board("trixie-aarch64", f"Raspberry Pi OS Lite (64-bit), {_PI}", "pi.img.xz"),
    "raspberry-pi-bookworm": Board("bookworm-aarch64", f"Raspberry Pi OS (Legacy, 64-bit) Lite, {_PI}", "pi.img.xz"),
    "virt-amd64": Board("bookworm-x86_64", "nightjar-firmware image --board virt-amd64 -o device.img", "device.img"),
    "virt-arm64": Board("bookworm-aarch64", "nightjar-firmware image --board virt-arm64 -o device.img", "device.img"),
}


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The answers to the questions of ``nightjar-firmware new-fleet``."""

    name: str  # of the fleet: its population, and the prefix of its devices' names
    devices: int  # how many cards it starts with
    address: str  # under which devices reach the coordinator
    board: str = "raspberry-pi"  # what the devices are, a key of BOARDS
    user: str = ""
    wifi: str = ""  # name of their network; empty: by cable
    wifi_country: str = ""  # where its radio is used, such as GB

    @property
    def household(self) -> bool:
        """Whether it is too small for the usual limits."""
        return self.devices < STRANGERS

    @property
    def size(self) -> str:
        """What ``nightjar-coordinator init --fleet`` calls it."""
        return "household" if self.devices < FEW else "hundreds" if self.devices < MANY else "thousands"

    def hostnames(self) -> tuple[str, ...]:
        """The names of its devices.

        >>> FleetPlan("home", 2, "192.0.2.1").hostnames()
        ('home-01', 'home-02')
        """
        width = max(2, len(str(self.devices)))
        return tuple(f"{self.name}-{number:0{width}d}" for number in range(1, self.devices + 1))


def check_plan(plan: FleetPlan) -> None:
    """Check the answers.

    Raises:
        ConfigError: at least one is of no use; the message lists each with what was expected.
    """
    faults = []
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", plan.name):
        faults.append(f"name: expected a to z, 0 to 9 and '-', at most 40, for host names, got {plan.name[:80]!r}")
    if not 2 <= plan.devices <= MOST_DEVICES:
        why = "the mean of one device is that device's update"
        faults.append(f"devices: expected 2 to {MOST_DEVICES} ({why}), got {plan.devices}")
    if not re.fullmatch(r"[A-Za-z0-9.:-]+", plan.address):
        faults.append(f"address: expected an IP address or host name of this machine, got {plan.address[:80]!r}")
    if plan.board not in BOARDS:
        faults.append(f"board: expected one of {', '.join(BOARDS)}, got {plan.board[:80]!r}")
    if plan.wifi_country and not plan.wifi:
        faults.append("wifi_country: it needs the name of a Wi-Fi")
    if faults:
        msg = "the fleet cannot be made:\n  " + "\n  ".join(faults)
        raise ConfigError(msg)


def plan_text(plan: FleetPlan) -> str:
    """The file that keeps the answers, for ``--fleet``."""
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in asdict(plan).items()]
    return "\n".join([_ABOUT, *lines, ""])


def read_plan(text: str) -> FleetPlan:
    """Parse what :func:`plan_text` wrote.

    Raises:
        ConfigError: it is something else.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"the fleet's answers are no TOML: {error}"
        raise ConfigError(msg) from error
    kinds = {field.name: int if field.name == "devices" else str for field in fields(FleetPlan)}
    wrong = [name for name, value in table.items() if name not in kinds or type(value) is not kinds[name]]
    wrong += [name for name in ("name", "devices", "address") if name not in table]
    if wrong:
        msg = f"the fleet's answers: missing, unknown or of the wrong type: {', '.join(wrong)}"
        raise ConfigError(msg)
    plan = FleetPlan(**table)
    check_plan(plan)
    return plan


def coordinator_settings(plan: FleetPlan) -> dict[str, object]:
    """What differs from the settings of fleets of that size, by dotted name."""
    least = 2 if plan.household else STRANGERS
    goal = min(MOST_REPORTS, max(least, math.floor(0.7 * plan.devices)))
    cohort = {"task.goal": goal, "task.minimum": least} if plan.devices < FEW else {}
    return {
        "population": plan.name,
        "host": plan.address,
        "broker.host": plan.address,
        "broker.allow_network": True,
        "enrolment.names": [plan.address],
        **cohort,
        "limits.household": plan.household,
    }


def agent_settings_text(plan: FleetPlan) -> str:
    """The settings that all devices share; names and addresses come with enrolment."""
    text = (
        "# Shared by the fleet's devices; 'nightjar-agent example' prints every setting.\n"
        "[keyboard]\nenabled = true  # people type on http://127.0.0.1:8700/, on the device itself\n"
    )
    return text + (
        "[limits]\nhousehold = true  # docs/privacy.md says what this gives away\n" if plan.household else ""
    )


def cards_text(plan: FleetPlan) -> str:
    """The list of cards for ``flash --cards``, without the disks, which only a person can name."""
    return "target,hostname,serial\n" + "".join(f",{hostname},\n" for hostname in plan.hostnames())


def next_steps(plan: FleetPlan, folder: str) -> str:
    """The commands that lead from the folder to a card."""
    board = BOARDS[plan.board]
    first = plan.hostnames()[0]
    serve = f"nightjar-coordinator serve --config {folder}/coordinator.toml"
    return (
        f"{folder} is ready. From here to a card:\n\n"
        f"  {serve}   # leave it running\n"
        f"  {'nightjar-firmware targets'.ljust(len(serve))}   # which disk is the card\n"
        f"  sudo $(which nightjar-firmware) flash {board.file} /dev/sdX --fleet {folder} --hostname {first}\n\n"
        f"{board.file}: {board.image}\n"
        f"Further cards: {', '.join(plan.hostnames()[1:4])}{', ...' if plan.devices > 4 else ''}; all at once: fill in "
        f"{folder}/cards.csv, then flash --cards. Keep fleet.key, tuf/keys and coordinator-recovery.pem elsewhere."
    )
