"""Makes a bundle: a plain tar of a signed manifest and the files that it lists.

The files are wheels, a lock that accepts exactly these wheels, an SBOM, and what the caller adds. The tar is not
compressed because wheels already are, and a device must open it with standard tools. Equal files give identical bytes:
order, times, owners and modes are fixed. :mod:`nightjar.firmware_scripts.bundle.reading` reads it.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nightjar.firmware_scripts.bundle.platforms import Platform
from nightjar.firmware_scripts.bundle.reading import FORMAT, MANIFEST, SIGNATURE
from nightjar.firmware_scripts.bundle.signing import sign
from nightjar.firmware_scripts.bundle.wheelhouse import AGENT, SOURCE_DATE_EPOCH, read_wheel
from nightjar.firmware_scripts.sbom import bundle_sbom
from nightjar.host.files import put_in_place
from nightjar.wire.errors import ConfigError
from nightjar.wire.releases import bundle_name


def make_bundle(
    platform: Platform, wheels_folder: Path, others: Mapping[str, bytes], key: Ed25519PrivateKey, output: Path
) -> Path:
    """Write a bundle of the wheels in a folder, the agent's own among them; return its path in the folder ``output``.

    ``others`` are further files by path in the bundle, such as an installer.

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
    version = wheels[names.index(AGENT)].version
    lock = "".join(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n" for wheel in wheels)
    files = {f"wheels/{wheel.path.name}": wheel.path.read_bytes() for wheel in wheels}
    files |= {"requirements.lock": lock.encode(), "sbom.cdx.json": bundle_sbom(wheels, AGENT), **others}
    facts = {
        "agent": version,
        "platform": platform.name,
        "machine": platform.machine,
        "python": ".".join(map(str, platform.python)),
        "glibc": f"2.{platform.glibc_minor}",
    }
    output.mkdir(parents=True, exist_ok=True)
    path = output / bundle_name(version, platform.name)
    write_archive(path, facts, files, key)
    return path


def write_archive(path: Path, facts: Mapping[str, str], files: Mapping[str, bytes], key: Ed25519PrivateKey) -> None:
    """Write a bundle of these facts and files, all under a folder named like ``path``.

    Raises:
        OSError: the archive cannot be written.
    """
    listed = sorted(files.items())
    rows = [
        {"path": name, "sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)} for name, data in listed
    ]
    manifest = (json.dumps({"format": FORMAT, **facts, "files": rows}, indent=2) + "\n").encode()
    partial = path.with_name(f"{path.name}.part")
    with tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in ((MANIFEST, manifest), (SIGNATURE, sign(key, manifest)), *listed):
            member = tarfile.TarInfo(f"{path.stem}/{name}")
            member.size, member.mtime, member.mode = len(data), SOURCE_DATE_EPOCH, 0o644
            archive.addfile(member, io.BytesIO(data))
    put_in_place(partial, path)
