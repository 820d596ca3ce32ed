"""Collects wheels with pip: the agent's dependencies from the index, and the agent itself from this checkout.

Packages must match the hashes in a lock file, the checkout's own unless another is given. The agent's wheel is built
from a copy that holds only what a device needs, with fixed times and modes and the locked setuptools, so that equal
sources give identical bytes.
"""

from __future__ import annotations

import email.parser
import os
import re
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from nightjar.firmware_scripts.bundle.platforms import Platform
from nightjar.firmware_scripts.device_program import PACKAGE
from nightjar.firmware_scripts.shell.hashing import sha256_of
from nightjar.host.children import python_command
from nightjar.host.programs import run_program
from nightjar.wire.errors import ConfigError, RemoteProtocolError, UnavailableError

AGENT = "nightjar-federated"
"""The name of the distribution: on the index, "nightjar" belongs to another project."""
AGENT_WHEELS = "nightjar_federated-*.whl"
LOCKS = PACKAGE / "requirements" / "locks"
# 1980-01-01 UTC, the earliest time that a zip file can hold.
SOURCE_DATE_EPOCH = 315_532_800
_PACKAGES = ("__init__.py", "commands.py", "wire", "host", "models", "edge_agent")
_PROJECT = ("requirements", "pyproject.toml", "LICENSE")
# Commands whose package is not on the device are left out, and the page for readers of the repository.
_NOT_ON_DEVICES = re.compile(r'nightjar-[a-z]+ = "(?!nightjar\.commands:agent)|readme = ')
# Devices fetch their model from the coordinator.
_NOT_FOR_DEVICES = ("pretrained", "pretraining")
# Devices of before 0.1.0 was out start the agent by this name, and their next release must start, too.
_FORMER_NAME = "edge_agent"
_FORMER_MAIN = "from nightjar.edge_agent.__main__ import start\n\nstart()\n"
_TIMEOUT_S = 900.0
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


def locked(platform: Platform, lock: Path | None) -> str:
    """The lock of a platform's packages: ours, or an earlier bundle's.

    Raises:
        OSError: a lock file cannot be read.
    """
    # Includes pip, so that a device needs no pip of its own to install the others.
    ours = [LOCKS / name for name in (platform.requirements, "pip.txt")]
    text = "".join(path.read_text(encoding="utf-8") for path in ([lock] if lock else ours))
    # The agent comes from our sources, never from an index: another project's package may have its name there.
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(f"{AGENT}=="))


def download_wheels(platform: Platform, lock: str, folder: Path) -> None:
    """Fetch the wheels that ``lock`` names for ``platform``.

    Raises:
        UnavailableError: the index cannot be reached, or has no wheel with a locked hash.
    """
    packages = folder / "packages.lock"
    packages.write_text(lock, encoding="utf-8")
    wanted = ["--no-deps", "--require-hashes", "-r", str(packages)]
    _pip("download", "--quiet", "--dest", str(folder), *platform.pip_options(), *wanted)


def not_locked(folder: Path, lock: str) -> tuple[str, ...]:
    """The names of the wheels in ``folder`` whose hash is not in ``lock``, except the agent's own."""
    hashes = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", lock))
    wheels = (path for path in sorted(folder.glob("*.whl")) if not path.match(AGENT_WHEELS))
    return tuple(path.name for path in wheels if sha256_of(path) not in hashes)


def build_agent_wheel(folder: Path, sources: Path = PACKAGE) -> None:
    """Build the agent's own wheel into ``folder``.

    Raises:
        ConfigError: ``sources`` lacks a part of the package.
        UnavailableError: the wheel cannot be built.
    """
    missing = [name for name in (*_PACKAGES, *_PROJECT) if not (sources / name).exists()]
    if missing:
        msg = f"{sources} is no whole Nightjar ({', '.join(missing)} missing): install it again, or give --agent-wheel"
        raise ConfigError(msg)
    copy = folder / "sources"
    former = copy / _FORMER_NAME
    former.mkdir(parents=True)
    (former / "__init__.py").touch()
    (former / "__main__.py").write_text(_FORMER_MAIN, encoding="utf-8")
    for below, names in ((copy / "nightjar", _PACKAGES), (copy, _PROJECT)):
        below.mkdir(exist_ok=True)
        for name in names:
            if (sources / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", *_NOT_FOR_DEVICES)
                shutil.copytree(sources / name, below / name, ignore=ignored)
            else:
                shutil.copy(sources / name, below / name)
    settings = copy / "pyproject.toml"
    lines = settings.read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(line for line in lines if not _NOT_ON_DEVICES.match(line))
    settings.write_text(text.replace('include = ["nightjar*"', f'include = ["nightjar*", "{_FORMER_NAME}"'), "utf-8")
    for path in copy.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    # Otherwise pip would fetch the index's newest setuptools.
    tools = folder / "tools"
    lock = ["--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(LOCKS / "build.txt")]
    _pip("install", "--quiet", "--target", str(tools), *lock)
    own = os.umask(0o022)  # setuptools copies the files, and a wheel keeps their modes
    try:
        _pip(
            "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(copy), tools=tools
        )
    finally:
        os.umask(own)
    shutil.rmtree(copy)
    shutil.rmtree(tools)


def _pip(*arguments: str, tools: Path | None = None) -> None:
    command = python_command("-m", "pip", "--disable-pip-version-check", "--no-input", *arguments)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH)}
    environment |= {"PYTHONPATH": str(tools)} if tools else {}
    done = run_program(command, _TIMEOUT_S, environment)
    if done.returncode:
        faults = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        msg = "pip could not collect the wheels:\n  " + "\n  ".join(faults or [done.stderr[-500:]])
        raise UnavailableError(msg)
