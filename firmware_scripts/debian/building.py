"""Builds a Debian package of given files with ``dpkg-deb``: equal files and facts give identical bytes.

Source: deb(5), deb-control(5); Debian Policy, chapters 3 to 6 and 12.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nightjar.host.programs import run_program
from nightjar.wire.errors import UnavailableError

EPOCH_S = 1_767_225_600
"""2026-01-01 UTC, the time of every file: a bundle has no date, and dpkg takes none before 1984."""
_CHANGED = "Thu, 01 Jan 2026 00:00:00 +0000"
_MAINTAINER = "Nightjar developers <nightjar@localhost.invalid>"
_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class File:
    """A file of a package."""

    data: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class DebianPackage:
    """A package before it is built.

    Attributes:
        architecture: Debian's name, or ``all``.
        summary: one line, without the name and a full stop.
        description: whole sentences, wrapped, without an empty line.
        files: by absolute path, without the leading slash.
        scripts: what dpkg runs as root, by name such as ``postinst``.
        further: more fields of the control file.
    """

    name: str
    version: str
    architecture: str
    depends: str
    summary: str
    description: str
    files: Mapping[str, File]
    scripts: Mapping[str, bytes]
    further: Mapping[str, str]
    section: str = "utils"

    @property
    def file_name(self) -> str:
        """Name of the package's file, as apt expects it."""
        return f"{self.name}_{self.version}_{self.architecture}.deb"


def build(package: DebianPackage, output: Path) -> Path:
    """Write a package into the folder ``output``, and return its path.

    Raises:
        UnavailableError: dpkg-deb is missing or failed, or a file cannot be written.
    """
    made = output / package.file_name
    documents = f"usr/share/doc/{package.name}"
    changes = gzip.compress(_changelog(package).encode(), mtime=0)
    files = {**package.files, f"{documents}/changelog.gz": File(changes)}
    size_kib = sum(-(-len(file.data) // 1024) for file in files.values())
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="nightjar-deb-") as folder:
            root = Path(folder) / package.name
            for path, file in files.items():
                _write(root / path, file)
            _write(root / "DEBIAN/control", File(_control(package, size_kib).encode()))
            for name, data in package.scripts.items():
                _write(root / f"DEBIAN/{name}", File(data, 0o755))
            for each in (root, *sorted(root.rglob("*"), reverse=True)):
                if each.is_dir():
                    each.chmod(0o755)
                os.utime(each, (EPOCH_S, EPOCH_S))
            # One thread: xz writes other bytes with more. A low level takes a tenth of the time.
            command: list[str | Path] = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--threads-max=1"]
            command += ["--build", root, made]
            environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH_S), "LC_ALL": "C.UTF-8"}
            done = run_program(command, _TIMEOUT_S, environment, remedy="apt install dpkg")
    except OSError as error:
        msg = f"the package {made} could not be written: {error}"
        raise UnavailableError(msg) from error
    if done.returncode:
        msg = f"dpkg-deb could not make {made.name}: {done.stderr.strip()[-500:]}"
        raise UnavailableError(msg)
    return made


def _write(path: Path, file: File) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.data)
    path.chmod(file.mode)


def _control(package: DebianPackage, size_kib: int) -> str:
    fields = {
        "Package": package.name,
        "Version": package.version,
        "Architecture": package.architecture,
        "Maintainer": _MAINTAINER,
        "Installed-Size": str(size_kib),
        "Depends": package.depends,
        **package.further,
        "Section": package.section,
        "Priority": "optional",
        "Description": package.summary,
    }
    lines = [f"{name}: {value}" for name, value in fields.items()]
    return "\n".join([*lines, *(f" {line}" for line in package.description.splitlines())]) + "\n"


def _changelog(package: DebianPackage) -> str:
    change = f"  * Made from the bundle of release {package.version}."
    return f"{package.name} ({package.version}) unstable; urgency=medium\n\n{change}\n\n -- {_MAINTAINER}  {_CHANGED}\n"
