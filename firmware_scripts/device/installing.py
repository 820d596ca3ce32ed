"""Installs the parts of a release that lie outside its folder: this program, the commands and the units. Idempotent."""

from __future__ import annotations

import shutil

from nightjar.firmware_scripts.device.health import AGENT
from nightjar.firmware_scripts.device.places import Places
from nightjar.firmware_scripts.device.unpacking import OWN
from nightjar.host.files import READABLE, replace_file, replace_link

PROGRAM = "nightjar-device.pyz"
TRIES = "nightjar-firstboot.service"
"""The unit that is enabled at boot from the beginning. It starts the agent while a first release is on trial."""
FETCHED = ("nightjar-release.path", "nightjar-release.service")
"""The units that take over what the agent fetched: when it hands something over, and at boot, after a power cut."""
_WANTS = "multi-user.target.wants"
# The system's Python, whatever is first on the shell's path. -P keeps the current folder off the module path.
_COMMANDS = {
    "nightjar-agent": "env PYTHONPATH=/opt/nightjar/current/lib /usr/bin/python3 -s -P -m nightjar.edge_agent",
    "nightjar-device": "/usr/bin/python3 -s /opt/nightjar/nightjar-device.pyz",
}


def adopt(places: Places, version: str, *, counts: bool) -> bool:
    """Install program, commands and units from a release, and enable its units at boot.

    ``counts`` is whether the release was found healthy: before, the agent has no identity to run with. Returns whether
    systemd has to reload its units.

    Raises:
        OSError: a file cannot be written.
    """
    own = places.releases / version / OWN
    wants = places.units / _WANTS
    for folder in (places.program.parent, places.commands, wants):
        folder.mkdir(parents=True, exist_ok=True)
    replace_file(places.program, (own / PROGRAM).read_bytes(), READABLE)
    for name, command in _COMMANDS.items():
        replace_file(places.commands / name, f'#!/bin/sh\nexec {command} "$@"\n'.encode(), 0o755)
    changed = False
    for unit in sorted((own / "units").glob("nightjar-*")):
        changed |= replace_file(places.units / unit.name, unit.read_bytes(), READABLE)
    fetched = tuple(name for name in FETCHED if (own / "units" / name).is_file())  # a release before had none
    for unit_name in (TRIES, AGENT, *fetched) if counts else (TRIES,):
        changed |= replace_link(wants / unit_name, f"/etc/systemd/system/{unit_name}")
    return changed


def remove(places: Places, *, with_data: bool) -> None:
    """Remove everything that was installed; typed text and the device's identity only if ``with_data`` is set."""
    for folder in (places.units / _WANTS, places.units):
        for unit in folder.glob("nightjar-*"):
            unit.unlink()
    for name in _COMMANDS:
        (places.commands / name).unlink(missing_ok=True)
    folders = [places.program.parent, places.kept]
    if with_data:
        folders += [places.configuration.parent, places.root / "var/lib/private/nightjar-agent"]
        data = places.root / "var/lib/nightjar-agent"
        if data.is_symlink():
            data.unlink()
        else:
            folders.append(data)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
