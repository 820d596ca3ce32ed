"""The options that set up a card for a host, shared by ``customise``, ``flash`` and ``twin``."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from nightjar.firmware_scripts.commands.asking import ask_wifi_key, wifi_key_given
from nightjar.firmware_scripts.core.agent_settings import agent_settings
from nightjar.firmware_scripts.core.host_settings import HostSettings, Wifi
from nightjar.firmware_scripts.core.printable import time_text
from nightjar.firmware_scripts.customising import BundleFiles, Order, check_order
from nightjar.firmware_scripts.fleet_folder import (
    AGENT,
    CLAIMS,
    PLAN,
    PUBLIC_KEY,
    SSH_KEY,
    bundle_in,
    claims_until,
    held_plan,
    held_wifi_key,
)
from nightjar.firmware_scripts.shell.given_files import load_parcel, read_given, read_given_text
from nightjar.firmware_scripts.shell.settings_check import check_agent_settings
from nightjar.wire.errors import ConfigError

_NOTHING: Mapping[str, Any] = {
    "user": None,
    "ssh_keys": (),
    "password_hash": None,
    "wifi": None,
    "wifi_country": None,
    "bundle": None,
    "public_key": None,
    "config": None,
    "claim_file": None,
}
_NO_KEY = "0" * 64  # of a Wi-Fi in a plan that is only shown
F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path)
_OPTIONS = (
    click.option("--fleet", type=_FILE, help="Folder of 'new-fleet': answers what the options below do not say."),
    click.option("--hostname", help="Name of the host, and of the device where no claim decides over it."),
    click.option("--user", help="Who may log in, with sudo. There is no user with a password that others know."),
    click.option("--ssh-key", "ssh_keys", multiple=True, type=_FILE, help="Public key file (.pub). Again for more."),
    click.option("--password-hash", type=_FILE, help="File with a hash by 'mkpasswd --method=yescrypt'."),
    click.option(
        "--wifi",
        help="Name of the network; empty: by cable. Its phrase: the fleet's, NIGHTJAR_WIFI_PHRASE, or asked for.",
    ),
    click.option("--wifi-country", help="Where its radio is used, such as GB."),
    click.option("--bundle", "bundle", type=_FILE, help="The agent for this kind of device (docs/bundles.md)."),
    click.option("--public-key", type=_FILE, help="The .pub file of the key that signed the bundle."),
    click.option("--config", type=_FILE, help="The agent's settings; the line 'device' becomes the host's name."),
    click.option("--claim-file", type=_FILE, help="What the device may enrol with, once (enrol-token create)."),
)


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The parsed options; an order combines them with what differs from card to card."""

    hostname: str | None
    user: str | None
    ssh_keys: tuple[str, ...]
    password_hash: str | None
    wifi: Wifi | None
    parcel: BundleFiles | None
    config: Path | None
    claim_file: Path | None
    fleet: Path | None

    def order(self, hostname: str, others: Mapping[str, str], folder: Path, *, writes: bool = True) -> Order:
        """Build the order for one card. ``writes`` is false for a card that is only compared with it.

        ``others`` are further columns of the list of cards: ``claim`` and ``config`` name files for this card alone,
        relative to ``folder``.

        Raises:
            ConfigError: the order cannot be carried out.
        """
        settings = HostSettings(hostname, self.user, self.ssh_keys, self.password_hash, self.wifi)
        config = folder / others["config"] if others.get("config") else self.config
        own_claim = folder / others["claim"] if others.get("claim") else self.claim_file
        claim = own_claim or self._claim_of(hostname)
        order = Order(
            settings,
            self.parcel,
            None if config is None else read_given_text(config),
            None if claim is None else read_given(claim),
            f"nightjar-{uuid.uuid4()}",
            None if own_claim or self.fleet is None else claims_until(self.fleet).get(hostname),
        )
        check_order(order)
        if writes and order.claim_until_s is not None and order.claim_until_s < datetime.now(UTC).timestamp():
            msg = (
                f"the claim of {hostname} could be used until {time_text(order.claim_until_s)} only: make another with "
                f"'nightjar-coordinator enrol-token create NAME --device {hostname} --out FILE', and give --claim-file"
            )
            raise ConfigError(msg)
        if order.agent_toml is not None:
            has_claim = order.claim is not None
            check_agent_settings(agent_settings(order.agent_toml, hostname, has_claim=has_claim), has_claim=has_claim)
        return order

    def _claim_of(self, hostname: str) -> Path | None:
        if self.fleet is None:
            return None
        path = self.fleet / CLAIMS / f"{hostname}.json"
        if not path.is_file():
            names = ", ".join(sorted(each.stem for each in path.parent.glob("*.json"))[:5])
            msg = f"the fleet has no claim for {hostname!r}; it has {names or 'none'}: name one, or give --claim-file"
            raise ConfigError(msg)
        return path


def host_options(command: F) -> F:
    """Add the options to a command, which receives them as keyword arguments for :func:`read_host_options`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_host_options(given: Mapping[str, Any], *, asks: bool = True) -> HostOptions | None:
    """Parse the options; None if none was given.

    ``asks`` is false if nothing will be written: a phrase that would have to be asked for is then left out.

    Raises:
        ConfigError: a file cannot be read, or an option is missing that another one needs.
        RemoteProtocolError: the bundle is invalid, or was not signed with this key.
    """
    if not any(given.values()):
        return None
    fleet = given["fleet"]
    if fleet is not None:
        given = _of_the_fleet(fleet, given)
    if bool(given["bundle"]) != bool(given["public_key"]):
        msg = "--bundle and --public-key need each other: what goes onto a card is checked first"
        raise ConfigError(msg)
    keys = [line.strip() for path in given["ssh_keys"] for line in read_given_text(path).splitlines()]
    hashed = read_given_text(given["password_hash"]).strip() if given["password_hash"] else None
    return HostOptions(
        given["hostname"],
        given["user"] or None,
        tuple(key for key in keys if key and not key.startswith("#")),
        hashed,
        _wifi(fleet, given["wifi"], given["wifi_country"], asks=asks),
        load_parcel(given["bundle"], given["public_key"]) if given["bundle"] else None,
        given["config"],
        given["claim_file"],
        fleet,
    )


def fleet_order(fleet: Path, hostname: str) -> Order:
    """The order that a fleet's folder gives for one of its cards, to compare a written card with.

    Raises:
        ConfigError: it is no fleet, has no such card, or its Wi-Fi's phrase is missing.
        RemoteProtocolError: the bundle is invalid.
    """
    options = read_host_options({**_NOTHING, "fleet": fleet, "hostname": hostname})
    if options is None:  # cannot happen: two options are given
        raise TypeError(fleet)
    return options.order(hostname, {}, Path(), writes=False)


def _of_the_fleet(fleet: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with what the fleet's folder says for those that were not given."""
    plan = held_plan(fleet)
    if plan is None:
        msg = f"{fleet} is no fleet, it has no {PLAN}: make one with 'nightjar-firmware new-fleet {fleet}'"
        raise ConfigError(msg)
    bundle = given["bundle"] or bundle_in(fleet, plan)
    if bundle is None:
        msg = f"{fleet} has no bundle yet: run 'nightjar-firmware new-fleet {fleet}' again"
        raise ConfigError(msg)
    nobody, by_cable = given["user"] == "", given["wifi"] == ""
    found: dict[str, Any] = {
        "user": plan.user or None,
        "ssh_keys": () if nobody else tuple(fleet.glob(SSH_KEY)),
        "wifi": plan.wifi or None,
        "wifi_country": None if by_cable else plan.wifi_country or None,
        "bundle": bundle,
        "public_key": fleet / PUBLIC_KEY,
        "config": fleet / AGENT,
    }
    # An option that is given empty overrides the fleet's answer, too.
    return {**given, **{name: value for name, value in found.items() if given[name] in {None, ()}}}


def _wifi(fleet: Path | None, ssid: str | None, country: str | None, *, asks: bool) -> Wifi | None:
    if not ssid:
        if country is not None:
            msg = "--wifi-country needs --wifi"
            raise ConfigError(msg)
        return None
    key = wifi_key_given(ssid) or (held_wifi_key(fleet, ssid) if fleet else None)
    if key is None:
        key = ask_wifi_key(ssid) if asks else _NO_KEY
    return Wifi(ssid, key, country or "")
