"""Makes the SBOM of an image: its Debian packages as CycloneDX 1.6, by CycloneDX's own library."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from firmware_scripts.image.debian import EPOCH_S, Package


def image_sbom(name: str, sha256: str, suite: str, architecture: str, packages: Sequence[Package]) -> bytes:
    """The SBOM of ``packages`` in the image ``name``; a function of its arguments only."""
    whole = Component(
        name=name,
        type=ComponentType.OPERATING_SYSTEM,
        bom_ref=name,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)],
    )
    components = [_component(package, suite, architecture) for package in packages]
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"nightjar-image:{sha256}"),
        metadata=BomMetaData(timestamp=datetime.fromtimestamp(EPOCH_S, UTC), component=whole),
        components=components,
    )
    bom.register_dependency(whole, components)
    return JsonV1Dot6(bom).output_as_string(indent=2).encode() + b"\n"


def _component(package: Package, suite: str, architecture: str) -> Component:
    kind = package.architecture if package.architecture == "all" else architecture
    purl = PackageURL("deb", "debian", package.name, package.version, {"arch": kind, "distro": suite})
    return Component(
        name=package.name, version=package.version, type=ComponentType.LIBRARY, bom_ref=str(purl), purl=purl
    )
