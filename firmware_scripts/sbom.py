"""Makes the SBOMs of bundles, images and the container: CycloneDX 1.6, by CycloneDX's own library.

They are reproducible: the serial number is derived from the contents, and the time is fixed.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from nightjar.firmware_scripts.bundle.wheelhouse import SOURCE_DATE_EPOCH, Wheel
from nightjar.firmware_scripts.image.debian import Package
from nightjar.firmware_scripts.image.tools import EPOCH_S


def bundle_sbom(wheels: Sequence[Wheel], agent: str) -> bytes:
    """The SBOM of ``wheels``; ``agent`` is the name of the one that depends on the others."""
    components = {wheel.name: _of_wheel(wheel) for wheel in wheels}
    contents = "".join(wheel.sha256 for wheel in wheels)
    return _sbom(components.pop(agent), list(components.values()), f"nightjar-bundle:{contents}", SOURCE_DATE_EPOCH)


def image_sbom(name: str, sha256: str, suite: str, architecture: str, packages: Sequence[Package]) -> bytes:
    """The SBOM of Debian's ``packages`` in the image ``name``."""
    whole = Component(
        name=name,
        type=ComponentType.OPERATING_SYSTEM,
        bom_ref=name,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)],
    )
    components = [_of_package(package, suite, architecture) for package in packages]
    return _sbom(whole, components, f"nightjar-image:{sha256}", EPOCH_S)


def container_sbom(
    version: str,
    base: str,
    python: Sequence[tuple[str, str]],
    packages: Sequence[Package],
    suite: str,
    architecture: str,
) -> bytes:
    """The SBOM of the coordinator's container.

    Args:
        version: of Nightjar.
        base: the image that it is built on, by digest.
        python: name and version of each Python package.
        packages: Debian's, as far as they are known; the base image has its own list of them.
        suite: Debian's release.
        architecture: Debian's word for the machine.
    """
    whole = Component(name="nightjar", version=version, type=ComponentType.CONTAINER, bom_ref="nightjar-container")
    name, _, digest = base.partition("@")
    repository, _, tag = name.rpartition(":")
    purl = PackageURL("oci", None, repository.rsplit("/", 1)[-1], digest, {"repository_url": repository, "tag": tag})
    parts = [Component(name=name, version=digest, type=ComponentType.CONTAINER, bom_ref=str(purl), purl=purl)]
    parts += [
        Component(name=name, version=version, type=ComponentType.LIBRARY, bom_ref=str(purl), purl=purl)
        for name, version, purl in ((name, at, PackageURL("pypi", None, name, at)) for name, at in python)
    ]
    parts += [_of_package(package, suite, architecture) for package in packages]
    identity = " ".join(sorted(part.bom_ref.value or "" for part in parts))
    return _sbom(whole, parts, f"nightjar-container:{version}:{identity}", EPOCH_S)


def _sbom(whole: Component, parts: list[Component], identity: str, time_s: int) -> bytes:
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, identity),
        metadata=BomMetaData(timestamp=datetime.fromtimestamp(time_s, UTC), component=whole),
        components=parts,
    )
    bom.register_dependency(whole, parts)
    return JsonV1Dot6(bom).output_as_string(indent=2).encode() + b"\n"


def _of_wheel(wheel: Wheel) -> Component:
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


def _of_package(package: Package, suite: str, architecture: str) -> Component:
    kind = package.architecture if package.architecture == "all" else architecture
    purl = PackageURL("deb", "debian", package.name, package.version, {"arch": kind, "distro": suite})
    return Component(
        name=package.name, version=package.version, type=ComponentType.LIBRARY, bom_ref=str(purl), purl=purl
    )
