"""Puts the agent into an image while it is made, by the device's own installer: such a card needs no pip at first boot.

Under emulation that is a minute. The packages are chosen and unpacked here; no program of the device is run.
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
    """Shell script that installs a bundle in the folder ``root``, for :class:`firmware_scripts.image.disk.Parts`.

    Args:
        parcel: the bundle, whose signature was checked.
        architecture: of the image, by Debian's name.
        work: folder for the installer; outlives the script.

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
        # Commands of packages would name this machine's Python, and the agent's status is the device's to write.
        "rm -rf root/opt/nightjar/releases/*/lib/bin root/boot/firmware/*",
    ]
    if platform.python == sys.version_info[:2]:
        # The agent may not write there, so without these each of its starts would compile everything anew.
        lines.append(
            f"{shlex.quote(sys.executable)} -m compileall -q --invalidation-mode unchecked-hash -s root "
            "root/opt/nightjar/releases || true"
        )
    return "\n".join(lines)
