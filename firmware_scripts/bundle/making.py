"""Puts a bundle together: wheels, a lock that accepts exactly them, the list of what is in it, and whatever else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from firmware_scripts.bundle.archive import Contents, folder_name, lock_lines, write_archive
from firmware_scripts.bundle.platforms import Platform
from firmware_scripts.bundle.sbom import make_sbom, read_wheel
from firmware_scripts.bundle.wheelhouse import AGENT
from wire.errors import ConfigError

LOCK = "requirements.lock"
SBOM = "sbom.cdx.json"


def make_bundle(
    platform: Platform, wheels_folder: Path, others: Mapping[str, Path], key: Ed25519PrivateKey, output: Path
) -> Path:
    """Write the bundle of the wheels in a folder; returns its path in the folder ``output``.

    Args:
        platform: what the wheels are for.
        wheels_folder: every wheel, the agent's own among them.
        others: more files by their path in the bundle, such as an installer.
        key: signs the manifest.
        output: a folder, made if it is not there.

    Raises:
        ConfigError: the agent's wheel is missing, or a package is there twice.
        RemoteProtocolError: a file is no wheel.
        OSError: a file cannot be read or written.
    """
    wheels = sorted((read_wheel(path) for path in wheels_folder.glob("*.whl")), key=lambda wheel: wheel.name)
    names = [wheel.name for wheel in wheels]
    if AGENT not in names or len(set(names)) != len(names):
        msg = f"expected one wheel of each package and one of {AGENT}, found {', '.join(names) or 'none'}"
        raise ConfigError(msg)
    agent = next(wheel for wheel in wheels if wheel.name == AGENT)
    files = {f"wheels/{wheel.path.name}": wheel.path.read_bytes() for wheel in wheels}
    files[LOCK] = lock_lines([(wheel.name, wheel.version, wheel.sha256) for wheel in wheels])
    files[SBOM] = make_sbom(wheels, AGENT)
    files |= {name: path.read_bytes() for name, path in others.items()}
    facts = {
        "agent": agent.version,
        "platform": platform.name,
        "machine": platform.machine,
        "python": ".".join(map(str, platform.python)),
        "glibc": f"2.{platform.glibc_minor}",
    }
    output.mkdir(parents=True, exist_ok=True)
    path = output / (folder_name("nightjar", agent.version, platform.name) + ".tar")
    write_archive(path, Contents(facts, files), key)
    return path
