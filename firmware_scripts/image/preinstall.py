"""Preinstalls the agent in an image with the device's own installer, so that the first boot needs no pip run.

Under emulation, pip would take a minute. The host selects and unpacks the packages and runs no program of the device.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from firmware_scripts.bundle.platforms import platform_named
from firmware_scripts.customising import BundleFiles
from wire.errors import ConfigError

_PROGRAM = "nightjar-device.pyz"
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def preinstall_script(parcel: BundleFiles, architecture: str, work: Path) -> str:
    """A shell script that installs a bundle in the folder ``root``, for :class:`firmware_scripts.image.disk.Parts`.

    ``work`` is a folder for the installer; it must outlive the script.

    Raises:
        ConfigError: the bundle is for another kind of device, or has no installer.
    """
    facts = parcel.facts
    platform = platform_named(str(facts.get("platform")))
    if platform.machine != _MACHINES[architecture] or _PROGRAM not in parcel.own:
        msg = f"the bundle is for {platform.name}, the image has the architecture {architecture}"
        raise ConfigError(msg)
    program, key = work / _PROGRAM, work / "bundle.pub"
    program.write_bytes(parcel.own[_PROGRAM])
    key.write_bytes(parcel.public_key)
    options = shlex.quote(" ".join(platform.pip_options()))
    lines = [
        f"install -D -m 0644 {shlex.quote(str(key))} root/etc/nightjar/bundle.pub",
        f"{shlex.quote(sys.executable)} -s {shlex.quote(str(program))} --root root install --no-start "
        f"--pip-options={options} {shlex.quote(str(parcel.path.absolute()))} > install.log 2>&1 "
        "|| { cat install.log >&2; exit 1; }",
        # The packages' commands would name the host's Python, and the device writes its own status file.
        "rm -rf root/opt/nightjar/releases/*/lib/bin root/boot/firmware/*",
    ]
    if platform.python == sys.version_info[:2]:
        # The agent may not write there, so without bytecode it would compile everything again at each start.
        lines.append(
            f"{shlex.quote(sys.executable)} -m compileall -q --invalidation-mode unchecked-hash -s root "
            "root/opt/nightjar/releases || true"
        )
    return "\n".join(lines)
