"""``nightjar-firmware bmap``: makes the block map of an image."""

from __future__ import annotations

from pathlib import Path

import click

from nightjar.firmware_scripts.commands.ending import refuse
from nightjar.firmware_scripts.core.bmap import format_bmap
from nightjar.firmware_scripts.shell.file_use import uses_of
from nightjar.firmware_scripts.shell.images import Packing, packing_of
from nightjar.firmware_scripts.shell.progress import display
from nightjar.firmware_scripts.shell.sparse import map_of
from nightjar.host.sizes import size_text
from nightjar.wire.errors import ConfigError, UnavailableError


@click.command()
@click.argument("image", type=click.Path(path_type=Path))
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Default: IMAGE.bmap.")
def bmap(image: Path, output: Path | None) -> None:
    """Record which blocks of IMAGE hold data, with a sha256 for each range.

    Holes in the sparse file are left out, so make the block map where the image was made, before packing the image.
    """
    if packing_of(image) is not Packing.PLAIN:
        msg = f"{image} is packed, and a packed file has forgotten which blocks were never written: use the plain image"
        raise ConfigError(msg)
    output = output or image.with_name(f"{image.name}.bmap")
    if reasons := uses_of(output):
        refuse((str(output), reasons))
    try:
        with display() as report_for:
            made = map_of(image, report_for(image.name))
        output.write_bytes(format_bmap(made))
    except OSError as error:
        msg = f"the block map of {image} could not be made: {error}"
        raise UnavailableError(msg) from error
    click.echo(f"{output}: {size_text(made.mapped_bytes)} of {size_text(made.image_bytes)} mapped", err=True)
