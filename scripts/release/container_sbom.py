"""The SBOM of the coordinator's container: ``python -m scripts.release.container_sbom --output FILE``.

pip installs in it exactly what the locks name, so the Python packages are known without building it. Debian's packages
are those of the base image, which is named by digest; ``--packages`` lists them too, from the built image:
``docker run --rm --entrypoint dpkg-query nightjar --show``.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import click
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from nightjar.firmware_scripts.image.debian import Package
from nightjar.firmware_scripts.sbom import container_sbom
from scripts.release.image_digests import by_tag, images

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "requirements" / "locks"
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
PYTHON = "3.11"
"""Of the base image."""


def locked(name: str, machine: str) -> list[tuple[str, str]]:
    """Name and version of each package that a lock installs in the container on a machine."""
    text = (LOCKS / f"{name}.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    where = {"python_version": PYTHON, "python_full_version": f"{PYTHON}.0", "platform_machine": machine}
    where |= {"sys_platform": "linux", "platform_system": "Linux", "implementation_name": "cpython", "os_name": "posix"}
    found = []
    for line in text.splitlines():
        wanted = re.split(r"\s+--hash=", line.strip())[0]
        if not wanted or wanted.startswith("#"):
            continue
        each = Requirement(wanted)
        if each.marker is None or each.marker.evaluate(where):
            found.append((canonicalize_name(each.name), str(each.specifier).removeprefix("==")))
    return found


def installed(text: str) -> list[Package]:
    """Debian's packages from the lines of ``dpkg-query --show``: name, with ``:architecture`` or without, and version.

    Raises:
        ValueError: a line is none of it.
    """
    found = []
    for line in text.splitlines():
        words = line.split("\t")
        if len(words) != 2 or not all(words):
            msg = f"expected lines of 'dpkg-query --show', got {line!r}"
            raise ValueError(msg)
        name, _, architecture = words[0].partition(":")
        found.append(Package(name, words[1], architecture))
    return found


@click.command(help=__doc__)
@click.option("--tensorflow", type=click.Choice(["tensorflow", "tensorflow-gpu", "none"]), default="tensorflow")
@click.option("--architecture", type=click.Choice(sorted(ARCHITECTURES)), default="amd64")
@click.option("--packages", type=click.Path(path_type=Path), help="Lines of dpkg-query --show of the built image.")
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True)
def main(tensorflow: str, architecture: str, packages: Path | None, output: Path) -> None:
    """Write it."""
    (base,) = images(ROOT / "deploy" / "Containerfile")
    if by_tag([base]):
        msg = f"the container is built on {base}, which is a tag: run 'python -m scripts.release.image_digests' first"
        raise click.ClickException(msg)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    machine = ARCHITECTURES[architecture]
    try:
        python = locked("coordinator", machine) + ([] if tensorflow == "none" else locked(tensorflow, machine))
        debian = installed(packages.read_text(encoding="utf-8")) if packages else []
    except (ValueError, OSError, InvalidRequirement) as error:
        raise click.ClickException(str(error)) from error
    python = sorted({("nightjar-federated", version), *python})
    output.write_bytes(container_sbom(version, base, python, debian, "bookworm", architecture))
    click.echo(f"{output}  {len(python)} Python packages, {len(debian)} of Debian, on {base}")


if __name__ == "__main__":
    main()
