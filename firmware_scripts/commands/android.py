"""``nightjar-firmware android``: copies the agent to phones connected over USB."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import click

from nightjar.firmware_scripts.android.push import ARCHIVE, FOLDER, choose, machine_of, packed, phones, push, run_adb
from nightjar.firmware_scripts.commands.ending import CommandEnded
from nightjar.firmware_scripts.core.agent_settings import agent_settings, check_claim
from nightjar.firmware_scripts.core.exit_status import ExitStatus
from nightjar.firmware_scripts.customising import BUNDLE, CLAIM, KEY, SETTINGS
from nightjar.firmware_scripts.shell.given_files import load_parcel, read_given, read_given_text
from nightjar.firmware_scripts.shell.settings_check import check_agent_settings
from nightjar.wire.errors import ConfigError, IntegrityError, RemoteProtocolError, UnavailableError

INSTALLER = Path(__file__).parents[1] / "android" / "termux-install.sh"
THERE = f"~/storage/downloads/{Path(FOLDER).name}/{ARCHIVE}"
TYPED = 20
"""Digits of the sha256 that a person types: finding another file with the same 80 bits is infeasible."""
_FILE = click.Path(path_type=Path)


@click.group()
def android() -> None:
    """Work with phones connected over USB, through adb (docs/android.md)."""


@android.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of {serial, state}.")
def list_phones(*, as_json: bool) -> None:
    """List the phones that adb sees."""
    connected = phones(run_adb)
    if as_json:
        click.echo(json.dumps([{"serial": phone.serial, "state": phone.state} for phone in connected], indent=2))
        return
    for phone in connected:
        click.echo(f"{phone.serial}  {phone.state}")
    if not connected:
        click.echo("no phone on a cable: switch USB debugging on (developer options), and allow this computer")


@android.command("push")
@click.option("--serial", "serials", multiple=True, required=True, help="Of the phone. Again for more phones.")
@click.option("--bundle", "bundle", type=_FILE, required=True, help="The agent for aarch64 (docs/bundles.md).")
@click.option("--public-key", type=_FILE, required=True, help="The .pub file of the key that signed the bundle.")
@click.option("--config", type=_FILE, help="The agent's settings; the line 'device' becomes the phone's serial number.")
@click.option("--claim-file", type=_FILE, help="What the phone may enrol with, once. For one phone alone.")
def push_to_phones(serials: tuple[str, ...], bundle: Path, public_key: Path, **given: Any) -> None:
    """Push the agent and its installer to phones and check every byte there. Starts nothing."""
    if given["claim_file"] and len(serials) > 1:
        msg = "one claim is for one phone: push to them one by one"
        raise ConfigError(msg)
    claim = read_given(given["claim_file"]) if given["claim_file"] else None
    shared = read_given_text(given["config"]) if given["config"] else None
    try:
        parcel = load_parcel(bundle, public_key)
    except RemoteProtocolError as error:
        raise CommandEnded(ExitStatus.IMAGE_UNUSABLE, str(error)) from error
    if claim is not None:
        check_claim(claim)
    connected = phones(run_adb)
    chosen = [choose(connected, serial) for serial in serials]
    for phone in chosen:
        machine = machine_of(run_adb, phone)
        if parcel.facts.get("machine") != machine:
            msg = f"the phone {phone.serial} is {machine}, the bundle is for {parcel.facts.get('machine')}"
            raise ConfigError(msg)
    if shared is not None:
        some = agent_settings(shared, "phone", has_claim=claim is not None)
        check_agent_settings(some, has_claim=claim is not None)
    for phone in chosen:
        name = phone.serial.lower().replace(":", "-").replace(".", "-")
        settings = agent_settings(shared, name, has_claim=claim is not None)
        files: dict[str, bytes | Path] = {BUNDLE: parcel.path, KEY: parcel.public_key, **parcel.own_files()}
        files |= {SETTINGS: settings.encode(), INSTALLER.name: INSTALLER.read_bytes()}
        files |= {CLAIM: claim} if claim is not None else {}
        archive = packed(files)
        try:
            push(run_adb, phone, archive)
        except IntegrityError as error:
            raise UnavailableError(str(error)) from error
        click.echo(f"{phone.serial}: {len(files)} files are in {FOLDER}/{ARCHIVE}, and are what was pushed")
        click.echo(f"on this phone, in Termux: termux-setup-storage, then:\n  {installing(archive)}")


def installing(archive: bytes) -> str:
    """The command to type in Termux: moves the archive into Termux' own folder, checks it there and starts it."""
    start = hashlib.sha256(archive).hexdigest()[:TYPED]
    return (
        f"cd; rm -rf nightjar; mv {THERE} . && sha256sum {ARCHIVE} | grep ^{start} && tar xf {ARCHIVE} && "
        f"rm {ARCHIVE} && sh nightjar/{INSTALLER.name}"
    )
