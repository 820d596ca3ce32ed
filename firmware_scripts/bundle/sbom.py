"""Makes the SBOM of a bundle: CycloneDX 1.6, by CycloneDX's own library.

It is reproducible: the serial number is derived from the contents, and the time is fixed.
"""

from __future__ import annotations

import email.parser
import uuid
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from firmware_scripts.bundle.wheelhouse import SOURCE_DATE_EPOCH
from firmware_scripts.shell.hashing import sha256_of
from wire.errors import RemoteProtocolError

_LONGEST_LICENSE = 100  # some packages put the whole license text there


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel: its file and its metadata."""

    path: Path
    name: str
    version: str
    sha256: str
    license: str


def read_wheel(path: Path) -> Wheel:
    """Read a wheel's metadata.

    Raises:
        RemoteProtocolError: the file is not a wheel.
        OSError: the file cannot be read.
    """
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
        with zipfile.ZipFile(path) as archive:
            entry = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA") and n.count("/") == 1)
            metadata = email.parser.BytesParser().parsebytes(archive.read(entry), headersonly=True)
    except (InvalidWheelFilename, zipfile.BadZipFile, StopIteration) as error:
        msg = f"{path.name} is no wheel: {error!r}"
        raise RemoteProtocolError(msg, code="bundle") from error
    named = metadata.get("License-Expression") or metadata.get("License") or ""
    license_text = named if len(named) <= _LONGEST_LICENSE and "\n" not in named else ""
    return Wheel(path, canonicalize_name(name), str(version), sha256_of(path), license_text)


def make_sbom(wheels: Sequence[Wheel], agent: str) -> bytes:
    """The SBOM of ``wheels``; ``agent`` is the name of the one that depends on the others."""
    contents = "".join(wheel.sha256 for wheel in wheels)
    components = {wheel.name: _component(wheel) for wheel in wheels}
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"nightjar-bundle:{contents}"),
        metadata=BomMetaData(
            timestamp=datetime.fromtimestamp(SOURCE_DATE_EPOCH, UTC),
            component=components[agent],
        ),
        components=[component for name, component in components.items() if name != agent],
    )
    bom.register_dependency(components[agent], [c for name, c in components.items() if name != agent])
    return JsonV1Dot6(bom).output_as_string(indent=2).encode() + b"\n"


def _component(wheel: Wheel) -> Component:
    purl = PackageURL("pypi", None, wheel.name, wheel.version)
    return Component(
        name=wheel.name,
        version=wheel.version,
        type=ComponentType.LIBRARY,
        bom_ref=str(purl),
        purl=purl,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=wheel.sha256)],
        licenses=[LicenseFactory().make_from_string(wheel.license)] if wheel.license else [],
    )
