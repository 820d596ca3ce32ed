"""``nightjar-firmware verify``: checks whether a card, image or folder is what it should be. Writes nothing."""

from __future__ import annotations

import json
import stat
from functools import partial
from pathlib import Path

import click

from nightjar.firmware_scripts.bundle.reading import read_archive
from nightjar.firmware_scripts.bundle.signing import check_signature, load_public_key
from nightjar.firmware_scripts.card_contents import contents_json, contents_lines
from nightjar.firmware_scripts.commands.ending import CommandEnded
from nightjar.firmware_scripts.commands.host_options import fleet_order
from nightjar.firmware_scripts.core.bmap import Bmap
from nightjar.firmware_scripts.core.exit_status import ExitStatus
from nightjar.firmware_scripts.core.manifest import MAX_MANIFEST_BYTES, ListedFile, parse_manifest
from nightjar.firmware_scripts.core.printable import printable
from nightjar.firmware_scripts.customised_cards import card_faults, customised_for, outside, own_files, rest_faults
from nightjar.firmware_scripts.customising import Order
from nightjar.firmware_scripts.ports import ProgressReport
from nightjar.firmware_scripts.shell.block_file import open_to_read
from nightjar.firmware_scripts.shell.fat import boot_partition
from nightjar.firmware_scripts.shell.hashing import sha256_of
from nightjar.firmware_scripts.shell.images import Packing, find_bmap, open_image, packing_of, read_bmap
from nightjar.firmware_scripts.shell.progress import display
from nightjar.firmware_scripts.surveying import survey
from nightjar.firmware_scripts.verifying import check_ranges, read_back
from nightjar.wire.errors import ConfigError, RemoteProtocolError, UnavailableError


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--bmap", "bmap_path", type=click.Path(path_type=Path), help="Block map. Default: the one beside an image."
)
@click.option("--image", type=click.Path(path_type=Path), help="The image that a card was written from.")
@click.option("--sha256", "expected", help="What the unpacked image must hash to.")
@click.option(
    "--manifest", "manifest_path", type=click.Path(path_type=Path), help="Manifest JSON, or sha256sum's lines."
)
@click.option("--public-key", type=click.Path(path_type=Path), help="PATH is a bundle that this key has signed.")
@click.option("--fleet", type=click.Path(path_type=Path), help="PATH was customised from this folder of 'new-fleet'.")
@click.option("--hostname", help="Which of the fleet's cards it is.")
@click.option("--json", "as_json", is_flag=True, help="Print {path, good, faults} as JSON, with --fleet what is on it.")
def verify(
    path: Path,
    bmap_path: Path | None,
    image: Path | None,
    expected: str | None,
    manifest_path: Path | None,
    public_key: Path | None,
    fleet: Path | None,
    hostname: str | None,
    *,
    as_json: bool,
) -> ExitStatus:
    """Read back and verify PATH: a card, an image (packed or not), a bundle, or a folder with a manifest.

    A card that was customised from a fleet's folder is known with --fleet and --hostname: its settings are compared
    with the folder, and with --image or --bmap the rest with the image. A card that was mounted or started after it was
    written will differ: even mounting it changes bytes.
    """
    if bool(fleet) != bool(hostname):
        msg = "--fleet and --hostname need each other: they say which card it is"
        raise ConfigError(msg)
    order = fleet_order(fleet, hostname) if fleet and hostname else None
    try:
        if order is not None:
            if public_key or expected or manifest_path:
                msg = "a card of a fleet is compared with --image or --bmap, not --public-key, --sha256 or --manifest"
                raise ConfigError(msg)
            faults = _customised(path, order, image, bmap_path)
        elif public_key:
            faults = _bundle(path, public_key)
        else:
            faults = _image_or_card(path, bmap_path, image, expected, manifest_path)
    except OSError as error:
        msg = f"{path} cannot be read: {error}"
        raise UnavailableError(msg) from error
    except RemoteProtocolError as error:
        raise CommandEnded(ExitStatus.IMAGE_UNUSABLE, str(error)) from error
    if as_json:
        found = {"path": str(path), "good": not faults, "faults": faults}
        click.echo(json.dumps({**found, "card": contents_json(order)} if order else found, indent=2))
    else:
        for fault in faults or ["good"]:
            click.echo(f"{printable(str(path))}: {fault}")
        if order and not faults:
            rest = "the rest is as its image" if image or bmap_path else "the rest was not compared: give --image"
            for line in (*contents_lines(order), rest):
                click.echo(f"  {line}")
    return ExitStatus.VERIFY_FAILED if faults else ExitStatus.DONE


def _bundle(path: Path, public_key: Path) -> list[str]:
    try:
        read_archive(path, partial(check_signature, load_public_key(public_key)))
    except RemoteProtocolError as error:
        return [str(error)]
    return []


def _customised(path: Path, order: Order, image: Path | None, bmap_path: Path | None) -> list[str]:
    if not path.exists():
        msg = f"there is no {path}"
        raise ConfigError(msg)
    if path.is_file() and packing_of(path) is not Packing.PLAIN:
        msg = f"{path} is packed, and customised cards are not: name the card, or the unpacked file"
        raise ConfigError(msg)
    with display() as report_for, open_to_read(path) as card, boot_partition(path) as fat:
        card.drop_cache()
        if faults := card_faults(order, fat):
            return faults
        report = report_for(path.name or str(path))
        if bmap_path and (failed := check_ranges(card, outside(read_bmap(bmap_path), fat.span), report)):
            return [f"byte {failed.offset} {failed.text}: {_blame(path)}"]
        if image is None:
            return []
        found = None if bmap_path else find_bmap(image)
        surveyed = survey(partial(open_image, image), read_bmap(found) if found else None, report)
        return list(rest_faults(surveyed, partial(open_image, image), own_files(order, fat), fat, card, report))


def _image_or_card(
    path: Path, bmap_path: Path | None, image: Path | None, expected: str | None, manifest_path: Path | None
) -> list[str]:
    is_packed = path.is_file() and packing_of(path) is not Packing.PLAIN
    if path.is_file() and not (bmap_path or image or manifest_path):
        bmap_path = find_bmap(path)
    if not (bmap_path or image or expected or manifest_path):
        msg = f"say what {path} should be: --bmap, --image, --sha256, --manifest or --public-key"
        raise ConfigError(msg)
    if expected and not path.is_file():
        msg = "--sha256 is for image files: a card goes on where its image ends. Give --image or --bmap for a card"
        raise ConfigError(msg)
    faults: list[str] = []
    bmap = read_bmap(bmap_path) if bmap_path else None
    with display() as report_for:
        report = report_for(path.name or str(path))
        if manifest_path:
            faults += _against_manifest(path, manifest_path)
        if image:
            faults += _against_image(path, image, report)
        if bmap and not is_packed:
            faults += _against_bmap(path, bmap, report)
        if expected or (bmap and is_packed):
            faults += _whole_image(path, bmap if is_packed else None, expected, report)
    return faults


def _against_image(path: Path, image: Path, report: ProgressReport) -> list[str]:
    found = find_bmap(image)
    surveyed = survey(partial(open_image, image), read_bmap(found) if found else None, report)
    with open_to_read(path) as card:
        failed = read_back(surveyed, surveyed.chunks, partial(open_image, image), card, report, lambda: False)
    return [f"byte {failed.offset} {failed.text}: {_blame(path, failed.offset)}"] if failed else []


def _against_bmap(path: Path, bmap: Bmap, report: ProgressReport) -> list[str]:
    with open_to_read(path) as card:
        failed = check_ranges(card, bmap, report)
    return [f"byte {failed.offset} {failed.text}: {_blame(path, failed.offset)}"] if failed else []


def _whole_image(path: Path, bmap: Bmap | None, expected: str | None, report: ProgressReport) -> list[str]:
    try:
        surveyed = survey(partial(open_image, path), bmap, report)
    except RemoteProtocolError as error:
        return [str(error)]
    if expected is None or surveyed.sha256 == expected.strip().lower():
        return []
    customised = "" if packing_of(path) is not Packing.PLAIN else _customised_hint(path)
    return [f"has sha256 {surveyed.sha256}, not {printable(expected, 64)}{customised and f': {customised}'}"]


def _against_manifest(path: Path, manifest_path: Path) -> list[str]:
    with manifest_path.open("rb") as file:
        listed = parse_manifest(file.read(MAX_MANIFEST_BYTES))
    if path.is_dir():
        return [fault for entry in listed if (fault := _file_fault(path / entry.path, entry))]
    entry = next((entry for entry in listed if Path(entry.path).name == path.name), None)
    if entry is None:
        return [f"is not in the manifest {manifest_path}"]
    fault = _file_fault(path, entry)
    return [fault] if fault else []


def _file_fault(path: Path, entry: ListedFile) -> str | None:
    if not path.is_file():
        return f"{entry.path} is missing"
    size = path.stat().st_size
    if entry.size_bytes is not None and size != entry.size_bytes:
        return f"{entry.path} has {size} bytes, not {entry.size_bytes}"
    return None if sha256_of(path) == entry.sha256 else f"{entry.path} is not the file that the manifest lists"


def _blame(path: Path, offset: int | None = None) -> str:
    if offset is not None and (hint := _customised_hint(path, offset)):
        return hint
    if stat.S_ISBLK(path.stat().st_mode):
        return "the card or reader is bad, or something wrote to the card since"
    return "the file is damaged, or was changed since"


def _customised_hint(path: Path, offset: int | None = None) -> str:
    """What to give for a card that was customised, if that explains a difference, at ``offset``; empty if not."""
    hostname = customised_for(path, offset)
    if hostname is None:
        return ""
    whose = f" for {hostname}" if hostname else ""
    name = hostname or "NAME"
    return (
        f"it was customised{whose}, so it is not its image any more: give --fleet FOLDER --hostname {name}, with the "
        "folder that it was written from"
    )
