"""``nightjar-firmware bundle`` and ``bundle-key``: the agent with all its dependencies in one signed archive."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

import click

from nightjar.firmware_scripts.bundle.making import make_bundle
from nightjar.firmware_scripts.bundle.platforms import PLATFORMS, platform_named
from nightjar.firmware_scripts.bundle.signing import load_private_key, make_key
from nightjar.firmware_scripts.bundle.wheelhouse import (
    AGENT_WHEELS,
    build_agent_wheel,
    download_wheels,
    locked,
    not_locked,
)
from nightjar.firmware_scripts.debian.contents import MODEL
from nightjar.firmware_scripts.device_program import device_files
from nightjar.firmware_scripts.shell.hashing import sha256_of
from nightjar.host.sizes import size_text
from nightjar.wire.errors import ConfigError, UnavailableError


@click.command()
@click.option(
    "--platform", "name", required=True, help=f"One of: {', '.join(p.name for p in PLATFORMS if not p.exempt)}."
)
@click.option("--key", "key_path", required=True, type=click.Path(path_type=Path), help="Signs it; see bundle-key.")
@click.option("--output", "-o", default=Path(), type=click.Path(path_type=Path), help="Folder. Default: this one.")
@click.option("--wheels", type=click.Path(path_type=Path), help="Folder of wheels to use; nothing is fetched then.")
@click.option(
    "--agent-wheel", type=click.Path(path_type=Path), help="The agent's wheel. Default: built from these sources."
)
@click.option("--lock", type=click.Path(path_type=Path), help="requirements.lock of a bundle: the very same packages.")
@click.option("--unlocked", is_flag=True, help="Sign packages of --wheels whatever their hashes are.")
@click.option(
    "--model", type=click.Path(path_type=Path), help="Folder of an exported model, for Debian packages of a desk."
)
@click.option("--include", multiple=True, help="NAME=FILE: one more file, under that name. Again for more.")
def bundle(
    name: str,
    key_path: Path,
    output: Path,
    wheels: Path | None,
    agent_wheel: Path | None,
    lock: Path | None,
    model: Path | None,
    include: tuple[str, ...],
    *,
    unlocked: bool,
) -> None:
    """Put the agent and its packages for one kind of device into one archive that installs without a network.

    Packages must match the hashes in a lock file: --lock, or the one in requirements/locks. Equal sources and packages
    give identical bytes. 'customise' puts the bundle on a card; docs/bundles.md explains how to install it by hand.
    """
    platform = platform_named(name)
    key = load_private_key(key_path)
    included = _included(include)
    try:
        with tempfile.TemporaryDirectory(prefix="nightjar-bundle-") as folder:
            house = Path(folder)
            packages = locked(platform, lock)
            if wheels:
                for path in wheels.glob("*.whl"):
                    shutil.copy(path, house)
            else:
                download_wheels(platform, packages, house)
            strange = () if unlocked else not_locked(house, packages)
            if strange:
                msg = (
                    f"the lock has no hash of {', '.join(strange)}: bring the wheels that it names, give the --lock "
                    "that names these, or sign them all the same with --unlocked"
                )
                raise ConfigError(msg)
            if agent_wheel:
                shutil.copy(agent_wheel, house)
            elif not any(house.glob(AGENT_WHEELS)):
                build_agent_wheel(house)
            others = device_files() | (model_of_bundle(model) if model else {})
            others |= {name: path.read_bytes() for name, path in included.items()}
            made = make_bundle(platform, house, others, key, output)
    except OSError as error:
        msg = f"the bundle could not be made: {error}"
        raise UnavailableError(msg) from error
    click.echo(f"{made}  {size_text(made.stat().st_size)}  sha256 {sha256_of(made)}")


@click.command("bundle-key")
@click.argument("name", type=click.Path(path_type=Path))
def bundle_key(name: Path) -> None:
    """Make a key pair: NAME.key signs bundles and stays with you, NAME.pub goes onto devices."""
    private, public = name.with_name(f"{name.name}.key"), name.with_name(f"{name.name}.pub")
    make_key(private, public)
    click.echo(f"{private} (keep it), {public} (for devices)")


def model_of_bundle(folder: Path) -> dict[str, bytes]:
    """The manifest of an exported model and the files that it lists, by path in the bundle.

    Raises:
        ConfigError: the folder holds no whole model.
        OSError: a file cannot be read.
    """
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        msg = f"--model {folder}: expected what 'python -m nightjar.models export' writes, got no {manifest.name}"
        raise ConfigError(msg)
    wanted = set(re.findall(r"[0-9a-f]{64}", manifest.read_text(encoding="utf-8", errors="replace")))
    found = {sha256_of(path): path for path in sorted(folder.iterdir()) if path.is_file()}
    missing = wanted - found.keys()
    if missing or not wanted:
        msg = f"--model {folder}: {len(missing)} of the files that its manifest lists are not there; export it again"
        raise ConfigError(msg)
    files = [manifest, *(found[digest] for digest in sorted(wanted))]
    return {f"{MODEL}{path.name}": path.read_bytes() for path in files}


def _included(include: tuple[str, ...]) -> dict[str, Path]:
    files = {}
    for entry in include:
        name, equals, file = entry.partition("=")
        if not equals or not name or name.startswith(("/", "wheels/", "device/", MODEL)) or ".." in Path(name).parts:
            msg = f"--include {entry!r}: expected NAME=FILE with a relative name outside of wheels/, device/ and model/"
            raise ConfigError(msg)
        files[name] = Path(file)
    return files
