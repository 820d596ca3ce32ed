"""Assembles a bundle: wheels, a lock file that accepts exactly these wheels, an SBOM, and further files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from firmware_scripts.bundle.archive import Contents, lock_lines, write_archive
from firmware_scripts.bundle.platforms import Platform
from firmware_scripts.bundle.sbom import make_sbom, read_wheel
from firmware_scripts.bundle.wheelhouse import AGENT
from wire.errors import ConfigError
from wire.releases import bundle_name

LOCK = "requirements.lock"
SBOM = "sbom.cdx.json"


def make_bundle(
    platform: Platform, wheels_folder: Path, others: Mapping[str, Path], key: Ed25519PrivateKey, output: Path
) -> Path:
    """Write a bundle of the wheels in a folder; return its path in the folder ``output``.

    Args:
        platform: the platform that the wheels are for.
        wheels_folder: the folder with all wheels, including the agent's own.
        others: further files by path in the bundle, such as an installer.
        key: the private key that signs the manifest.
        output: the output folder, created if it does not exist.

    Raises:
        ConfigError: the agent's wheel is missing, or a package occurs twice.
        RemoteProtocolError: a file is not a wheel.
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
    path = output / bundle_name(agent.version, platform.name)
    write_archive(path, Contents(facts, files), key)
    return path
