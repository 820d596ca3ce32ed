"""``nightjar-firmware keys``: the owner's offline keys, for releases over the air (docs/releases.md) and programs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from nightjar.firmware_scripts import release_keys
from nightjar.firmware_scripts.program_signing import sign_model
from nightjar.models.signed_programs import SIGNATURE_FILE
from nightjar.wire.errors import ConfigError, UnavailableError

_folder = click.argument("folder", type=click.Path(path_type=Path))
_MOST_KEYS = 20


@click.group()
def keys() -> None:
    """The owner's offline keys: releases over the air, and what devices may compute."""


@keys.command()
@_folder
@click.option("--root", default="2/3", show_default=True, help="Signatures needed / keys of the root role.")
@click.option("--targets", default="1/1", show_default=True, help="The same of the role that lists the bundles.")
def init(folder: Path, root: str, targets: str) -> None:
    """Make all keys, root and targets; then move each root key to another keeper."""
    release_keys.make_repository(folder, {"root": _threshold(root), "targets": _threshold(targets)}, _now())
    _say(folder)


@keys.command()
@_folder
@click.argument("role", type=click.Choice(release_keys.ROLES))
def rotate(folder: Path, role: str) -> None:
    """Replace all keys of a role; needs enough root keys, and for 'targets' and 'online' enough targets keys."""
    release_keys.rotate(folder, role, _now())
    _say(folder)


@keys.command()
@_folder
@click.argument("role", type=click.Choice(release_keys.ROLES[:2]))
def renew(folder: Path, role: str) -> None:
    """Extend the life of root or targets by 400 days."""
    release_keys.renew(folder, role, _now())
    _say(folder)


@keys.command()
@_folder
def cosign(folder: Path) -> None:
    """Add the signatures of the keys that are in the folder now."""
    release_keys.cosign(folder)
    _say(folder)


@keys.command()
@_folder
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--security", is_flag=True, help="Devices fetch it on battery and metered networks, too.")
def add(folder: Path, bundles: tuple[Path, ...], *, security: bool) -> None:
    """List bundles as genuine; 'nightjar-coordinator release add' publishes them."""
    try:
        names = release_keys.add_bundles(folder, bundles, _now(), security=security)
    except OSError as error:
        msg = f"a bundle cannot be read: {error}"
        raise UnavailableError(msg) from error
    click.echo(f"listed: {', '.join(names)}")
    _say(folder)


@keys.command()
@_folder
@click.argument("model", type=click.Path(path_type=Path))
def sign(folder: Path, model: Path) -> None:
    """Let devices compute the program of a model folder: sign it with the owner's keys in FOLDER.

    Makes a key if FOLDER has none. Devices know the programs of the exported keyboards 'tiny' and 'gboard'; sign one of
    these if claims are to bring your key for a later model of your own.
    """
    try:
        signed = sign_model(folder, model)
    except OSError as error:
        msg = f"the signature cannot be written to {model}: {error}"
        raise UnavailableError(msg) from error
    click.echo(f"{model / SIGNATURE_FILE}: program {signed.program[:12]}, signed by")
    for each in signed.signatures:
        click.echo(each.key)


def _say(folder: Path) -> None:
    for name, signed, needed, expires in release_keys.signatures(folder):
        lacks = "" if signed >= needed else "; bring further keys and run 'keys cosign'"
        click.echo(f"{name}: {signed} of {needed} signatures, until {expires:%Y-%m-%d}{lacks}")


def _threshold(text: str) -> tuple[int, int]:
    needed, _, number = text.partition("/")
    if not (needed.isdecimal() and number.isdecimal() and 1 <= int(needed) <= int(number) <= _MOST_KEYS):
        msg = f"expected signatures needed / keys, such as 2/3, got {text!r}"
        raise ConfigError(msg)
    return int(needed), int(number)


def _now() -> datetime:
    return datetime.now(UTC)
