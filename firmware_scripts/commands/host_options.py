"""The options that set up a card for a host, shared by ``customise``, ``flash`` and ``twin``."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from nightjar.firmware_scripts.core.agent_settings import agent_settings
from nightjar.firmware_scripts.core.host_settings import HostSettings, Wifi, wifi_key
from nightjar.firmware_scripts.customising import BundleFiles, Order, check_order
from nightjar.firmware_scripts.fleet_folder import AGENT, CLAIMS, PLAN, PUBLIC_KEY, SSH_KEY, bundle_in, held_plan
from nightjar.firmware_scripts.shell.given_files import load_parcel, read_given, read_given_text
from nightjar.firmware_scripts.shell.settings_check import check_agent_settings
from nightjar.wire.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])
WIFI_PHRASE = "NIGHTJAR_WIFI_PHRASE"
_FILE = click.Path(path_type=Path)
_OPTIONS = (
    click.option("--fleet", type=_FILE, help="Folder of 'new-fleet': answers what the options below do not say."),
    click.option("--hostname", help="Name of the host, and of the device where no claim decides over it."),
    click.option("--user", help="Who may log in, with sudo. There is no user with a password that others know."),
    click.option("--ssh-key", "ssh_keys", multiple=True, type=_FILE, help="Public key file (.pub). Again for more."),
    click.option("--password-hash", type=_FILE, help="File with a hash by 'mkpasswd --method=yescrypt'."),
    click.option("--wifi", help="Name of the network. Its phrase is asked for, or taken from NIGHTJAR_WIFI_PHRASE."),
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
    claims: Path | None

    def order(self, hostname: str, others: Mapping[str, str], folder: Path) -> Order:
        """Build the order for one card.

        ``others`` are further columns of the list of cards: ``claim`` and ``config`` name files for this card alone,
        relative to ``folder``.

        Raises:
            ConfigError: the order cannot be carried out.
        """
        settings = HostSettings(hostname, self.user, self.ssh_keys, self.password_hash, self.wifi)
        config = folder / others["config"] if others.get("config") else self.config
        claim = folder / others["claim"] if others.get("claim") else self.claim_file or self._claim_of(hostname)
        order = Order(
            settings,
            self.parcel,
            None if config is None else read_given_text(config),
            None if claim is None else read_given(claim),
            f"nightjar-{uuid.uuid4()}",
        )
        check_order(order)
        if order.agent_toml is not None:
            has_claim = order.claim is not None
            check_agent_settings(agent_settings(order.agent_toml, hostname, has_claim=has_claim), has_claim=has_claim)
        return order

    def _claim_of(self, hostname: str) -> Path | None:
        if self.claims is None:
            return None
        path = self.claims / f"{hostname}.json"
        if not path.is_file():
            names = ", ".join(sorted(each.stem for each in self.claims.glob("*.json"))[:5])
            msg = f"the fleet has no claim for {hostname!r}; it has {names or 'none'}: name one, or give --claim-file"
            raise ConfigError(msg)
        return path


def host_options(command: F) -> F:
    """Add the options to a command, which receives them as keyword arguments for :func:`read_host_options`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_host_options(given: Mapping[str, Any]) -> HostOptions | None:
    """Parse the options; None if none was given.

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
        given["user"],
        tuple(key for key in keys if key and not key.startswith("#")),
        hashed,
        _wifi(given["wifi"], given["wifi_country"]),
        load_parcel(given["bundle"], given["public_key"]) if given["bundle"] else None,
        given["config"],
        given["claim_file"],
        None if fleet is None else fleet / CLAIMS,
    )


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
    found: dict[str, Any] = {
        "user": plan.user or None,
        "ssh_keys": tuple(fleet.glob(SSH_KEY)),
        "wifi": plan.wifi or None,
        "wifi_country": plan.wifi_country or None,
        "bundle": bundle,
        "public_key": fleet / PUBLIC_KEY,
        "config": fleet / AGENT,
    }
    return {**given, **{name: given[name] or value for name, value in found.items()}}


def _wifi(ssid: str | None, country: str | None) -> Wifi | None:
    if ssid is None:
        if country is not None:
            msg = "--wifi-country needs --wifi"
            raise ConfigError(msg)
        return None
    # Never taken from the command line, which every user of this machine could read.
    phrase = os.environ.get(WIFI_PHRASE) or click.prompt(f"Phrase of the Wi-Fi {ssid}", hide_input=True, err=True)
    return Wifi(ssid, wifi_key(ssid, phrase), country or "")
