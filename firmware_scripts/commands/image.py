"""``nightjar-firmware image``: builds our own minimal Debian image, for the twin and for general use."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import click

from nightjar.firmware_scripts.commands.ending import refuse
from nightjar.firmware_scripts.image.debian import parse_packages
from nightjar.firmware_scripts.image.making import boards, make_image, recipe_of
from nightjar.firmware_scripts.image.tools import cache_folder
from nightjar.firmware_scripts.shell.file_use import uses_of
from nightjar.firmware_scripts.shell.given_files import load_parcel, read_given_text
from nightjar.firmware_scripts.shell.progress import display
from nightjar.host.sizes import size_text
from nightjar.wire.errors import ConfigError, UnavailableError

DEFAULT_BOARD = "virt-arm64"


@click.command()
@click.option("--board", default=DEFAULT_BOARD, show_default=True, help="What it runs on; --boards lists them.")
@click.option("--boards", "list_boards", is_flag=True, help="List the boards.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Default: nightjar-BOARD.img.")
@click.option("--mirror", default="", help="URL of a Debian mirror, or of a snapshot. Default: Debian's own.")
@click.option("--lock", type=click.Path(path_type=Path), help="IMAGE.packages of another one: the very same versions.")
@click.option("--bundle", type=click.Path(path_type=Path), help="The agent, in it from the start (docs/bundles.md).")
@click.option("--public-key", type=click.Path(path_type=Path), help="The .pub file of the key that signed the bundle.")
@click.option("--json", "as_json", is_flag=True, help="Print what was made as JSON.")
def image(
    board: str,
    output: Path | None,
    mirror: str,
    lock: Path | None,
    bundle: Path | None,
    public_key: Path | None,
    *,
    list_boards: bool,
    as_json: bool,
) -> None:
    """Build a Debian image for a board, with its block map, sha256, packages and list of contents beside it.

    The first build takes minutes; Debian's packages are then cached (in NIGHTJAR_CACHE, or the user's cache). Needs no
    root, loop device or mount. Equal packages give identical bytes.
    """
    if list_boards:
        for name, about in boards().items():
            click.echo(f"{name:12}  {about}")
        return
    recipe = recipe_of(board)
    if bool(bundle) != bool(public_key):
        msg = "--bundle and --public-key need each other: what goes into an image is checked first"
        raise ConfigError(msg)
    parcel = load_parcel(bundle, public_key) if bundle and public_key else None
    output = (output or Path(f"nightjar-{board}.img")).absolute()  # some steps run in another folder
    if reasons := uses_of(output):
        refuse((str(output), reasons))
    cache = cache_folder(os.environ)
    locked = parse_packages(read_given_text(lock)) if lock else ()
    started = time.monotonic()
    click.echo(f"{output}: Debian's packages, from {cache} or for the first time (minutes)", err=True)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with display() as report_for:
            made = make_image(recipe, output, cache, mirror, locked, parcel, report_for(output.name))
    except OSError as error:
        msg = f"the image could not be made: {error}"
        raise UnavailableError(msg) from error
    took_s = round(time.monotonic() - started, 1)
    if as_json:
        facts = {"image": str(made.image), "sha256": made.sha256, "packages": made.packages}
        click.echo(json.dumps({**facts, "root_file_system_cached": made.cached, "seconds": took_s}, indent=2))
    else:
        used = size_text(made.image.stat().st_blocks * 512)
        click.echo(f"{made.image}  {used} on disk, {made.packages} packages  sha256 {made.sha256}  ({took_s} s)")
