"""``nightjar-firmware new-fleet``: six questions, and a folder from which cards can be written."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

import click

from nightjar.firmware_scripts.commands.asking import WIFI_PHRASE, ask_wifi_key, has_terminal, wifi_key_given
from nightjar.firmware_scripts.core.fleet_plan import BOARDS, FleetPlan, check_plan, next_steps
from nightjar.firmware_scripts.core.host_settings import check_wifi
from nightjar.firmware_scripts.core.printable import printable
from nightjar.firmware_scripts.fleet_folder import held_plan, held_wifi_key, make_fleet
from nightjar.firmware_scripts.shell.given_files import read_given_text
from nightjar.wire.errors import ConfigError

_KEYS = ("~/.ssh/id_ed25519.pub", "~/.ssh/id_ecdsa.pub", "~/.ssh/id_rsa.pub")


@click.command("new-fleet")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", help="Of the fleet; its devices are NAME-01, NAME-02, ...")
@click.option("--devices", type=int, help="How many cards it starts with.")
@click.option("--address", help="Of this machine, as its devices reach it.")
@click.option("--board", help=f"What its devices are: {', '.join(BOARDS)}.")
@click.option("--ssh-key", help="Public key file of who may log in on them; empty: nobody.")
@click.option("--wifi", help="Name of their network; empty: by cable. Its phrase is asked, or NIGHTJAR_WIFI_PHRASE.")
@click.option("--wifi-country", help="Where its radio is used, such as GB.")
@click.option("--user", default=None, help="Who may log in. Default: you.")
@click.option("--model", default="tiny", show_default=True, help="Size of the first model: tiny or gboard.")
def new_fleet(
    folder: Path,
    name: str | None,
    devices: int | None,
    address: str | None,
    board: str | None,
    ssh_key: str | None,
    wifi: str | None,
    wifi_country: str | None,
    user: str | None,
    model: str,
) -> None:
    """Ask six questions, and make FOLDER: keys, coordinator, first model, agent, a claim and a recipe for each card.

    The Wi-Fi's phrase is asked here, once for all cards; FOLDER keeps only the key that is made of it. An option
    answers its question. If a step fails or is interrupted, the same command goes on from there, and asks nothing
    again.
    """
    plan = held_plan(folder)
    keys = ""
    if plan is None:
        if folder.exists() and any(folder.iterdir()):
            msg = f"{folder} holds other things: name a new folder"
            raise ConfigError(msg)
        name = _answer(name, "Name of the fleet", folder.resolve().name.lower())
        devices = int(_answer(None if devices is None else str(devices), "How many devices", "2"))
        address = _answer(address, "Address of this machine, as they reach it", _own_address())
        board = _answer(board, f"What they are ({', '.join(BOARDS)})", "raspberry-pi")
        ssh_key = _answer(ssh_key, "Public key file of who may log in (empty: nobody)", _own_key())
        wifi = _answer(wifi, "Name of their Wi-Fi (empty: by cable)", "")
        if wifi:
            wifi_country = _answer(wifi_country, "Country of the Wi-Fi, such as GB", "").upper()
            check_wifi(wifi, wifi_country)
        who = (user or _user()) if ssh_key else ""
        plan = FleetPlan(name, devices, address, board, who, wifi, wifi_country or "")
        check_plan(plan)
        keys = read_given_text(Path(ssh_key).expanduser()) if ssh_key else ""
    elif given := [each for each in (name, devices, address, board, ssh_key, wifi, user) if each is not None]:
        msg = f"{folder} has its answers in fleet.toml already: leave out {given[0]!r}, or name a new folder"
        raise ConfigError(msg)
    key = _wifi_key(folder, plan.wifi) if plan.wifi else None
    make_fleet(folder, plan, keys, key, model, lambda line: click.echo(f"- {line}", err=True))
    click.echo(next_steps(plan, os.path.relpath(folder)))


def _wifi_key(folder: Path, ssid: str) -> str | None:
    """The key of the fleet's Wi-Fi, to be kept; None if there is nobody to ask for its phrase."""
    key = wifi_key_given(ssid) or held_wifi_key(folder, ssid)
    if key is None and has_terminal():
        return ask_wifi_key(ssid, twice=True)
    if key is None:
        text = (
            f"note: the phrase of the Wi-Fi {printable(ssid)} is not known, and there is no terminal to ask for it: "
            f"set {WIFI_PHRASE} and run this again, or flash will ask for it each time"
        )
        click.echo(text, err=True)
    return key


def _answer(given: str | None, question: str, proposed: str) -> str:
    if given is not None:
        return given
    return str(click.prompt(question, default=proposed, err=True)).strip()


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: asks the kernel which address would be used
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _own_key() -> str:
    return next((path for path in _KEYS if Path(path).expanduser().is_file()), "")


def _user() -> str:
    return os.environ.get("SUDO_USER") or getpass.getuser()
