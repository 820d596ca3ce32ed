"""``nightjar-firmware deb``: Debian packages for a desk, from a signed bundle."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from nightjar.firmware_scripts.bundle.reading import read_archive
from nightjar.firmware_scripts.bundle.signing import check_signature, load_public_key
from nightjar.firmware_scripts.debian.building import build
from nightjar.firmware_scripts.debian.component import component_of
from nightjar.firmware_scripts.debian.packages import BundleFiles, agent_package, ibus_package
from nightjar.firmware_scripts.shell.hashing import sha256_of
from nightjar.host.sizes import size_text
from nightjar.wire.errors import UnavailableError


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--public-key", required=True, type=click.Path(path_type=Path), help="The key that signed BUNDLE.")
@click.option("--output", "-o", default=Path(), type=click.Path(path_type=Path), help="Folder. Default: this one.")
def deb(bundle: Path, public_key: Path, output: Path) -> None:
    """Make the Debian packages of a desk from a signed bundle that has a model (bundle --model).

    The same bundle gives the same bytes. docs/desk.md explains how to install and use them.
    """
    collected = BundleFiles()
    try:
        checked = read_archive(bundle, partial(check_signature, load_public_key(public_key)), collected.take)
    except OSError as error:
        msg = f"the bundle {bundle} cannot be read: {error}"
        raise UnavailableError(msg) from error
    files = collected.whole()
    packages = (agent_package(checked, files), ibus_package(checked, component_of(files)))
    for package in packages:
        made = build(package, output)
        click.echo(f"{made}  {size_text(made.stat().st_size)}  sha256 {sha256_of(made)}")
