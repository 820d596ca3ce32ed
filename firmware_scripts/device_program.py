"""Packs the files that run on a device: one zipped Python program for the system's Python, the units and the installer.

Equal sources give identical bytes. Enrolment and self-test run in exactly the agent's sandbox: their units are derived
from the agent's unit with another command, so they cannot drift apart.
"""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import nightjar
from nightjar.wire.errors import ConfigError

PACKAGE = Path(nightjar.__file__).parent
"""The sources of everything; in a checkout they are links, in an installed package real files."""
PROGRAM = "nightjar-device.pyz"
INSTALLER = "install.sh"
_MODULES = (
    "__init__.py",
    "host/__init__.py",
    "host/files.py",
    "host/locks.py",
    "host/programs.py",
    "wire/__init__.py",
    "wire/crash_loop.py",
    "wire/errors.py",
    "wire/machine.py",
    "wire/release_version.py",
    "firmware_scripts/__init__.py",
    "firmware_scripts/core/__init__.py",
    "firmware_scripts/core/checks.py",
    "firmware_scripts/core/manifest.py",
    "firmware_scripts/bundle/__init__.py",
    "firmware_scripts/bundle/reading.py",
)
_START = "import sys\n\nfrom nightjar.firmware_scripts.device.__main__ import main\n\nsys.exit(main())\n"
_FIRST_MOMENT = (1980, 1, 1, 0, 0, 0)
_AGENT_UNIT = "edge_agent/nightjar-agent.service"
_COMMAND = "/usr/local/bin/nightjar-agent"
_SETTINGS = "--config %d/agent.toml"


def device_files(package: Path = PACKAGE) -> dict[str, bytes]:
    """All files of a bundle's folder ``device/``, by path in the bundle.

    Raises:
        ConfigError: ``package`` lacks one of them.
    """
    here = package / "firmware_scripts/device"
    try:
        agent = (package / _AGENT_UNIT).read_text(encoding="utf-8")
        files = {
            f"device/{PROGRAM}": device_program(package),
            f"device/{INSTALLER}": (here / INSTALLER).read_bytes(),
            "device/units/nightjar-agent.service": agent.encode(),
            "device/units/nightjar-enrol.service": enrol_unit(agent).encode(),
            "device/units/nightjar-self-test.service": self_test_unit(agent).encode(),
        }
        files |= {
            f"device/units/{path.name}": path.read_bytes() for path in sorted((here / "units").glob("nightjar-*"))
        }
    except OSError as error:
        msg = f"{package} is no whole Nightjar: {error}"
        raise ConfigError(msg) from error
    return files


def device_program(package: Path = PACKAGE) -> bytes:
    """``nightjar-device.pyz``: an executable Python zip, uncompressed and with fixed timestamps.

    Raises:
        OSError: a module cannot be read.
    """
    own = sorted((package / "firmware_scripts/device").glob("*.py"))
    names = [*_MODULES, *(path.relative_to(package).as_posix() for path in own)]
    made = io.BytesIO()
    made.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _FIRST_MOMENT), _START)
        for name in names:
            archive.writestr(zipfile.ZipInfo(f"nightjar/{name}", _FIRST_MOMENT), (package / name).read_bytes())
    return made.getvalue()


def enrol_unit(agent_unit: str) -> str:
    """The unit that enrols the device, derived from the agent's unit."""
    # The claim file belongs to root, so systemd passes it to this unit as a credential, readable by this unit only.
    # The unit copies it to its private /tmp, because the agent blanks the claim after use.
    copy = "/usr/bin/install -m 0600 %d/claim /tmp/claim.json"
    command = f"{_COMMAND} enrol {_SETTINGS} --claim /tmp/claim.json"
    credential = "LoadCredential=claim:/var/lib/nightjar/claim.json"
    return _once(agent_unit, "enrols this device, once", (copy, command), credential)


def self_test_unit(agent_unit: str) -> str:
    """The unit that trains one step as a self-test, derived from the agent's unit."""
    return _once(agent_unit, "trains a step, to see whether it can", (f"{_COMMAND} self-test {_SETTINGS}",))


def _once(agent_unit: str, does: str, commands: tuple[str, ...], *others: str) -> str:
    unit = agent_unit[agent_unit.index("[Unit]") : agent_unit.index("[Install]")]
    # DynamicUser defaults to the unit's name, so these units must name the agent's user to share its folder.
    starts = [f"ExecStart={command}" for command in commands]
    service = "\n".join(["Type=oneshot", *starts, "User=nightjar-agent", "TimeoutStartSec=900", *others])
    unit = re.sub(r"^Description=.*$", f"Description=Nightjar: {does}", unit, flags=re.MULTILINE)
    unit = re.sub(
        r"^(#.*|Type=.*|WatchdogSec=.*|Restart(Sec)?=.*|Timeout(Start|Stop)Sec=.*)\n", "", unit, flags=re.MULTILINE
    )
    unit = re.sub(r"^ExecStart=.*$", lambda _: service, unit, flags=re.MULTILINE)
    return f"# Made from nightjar-agent.service: the same user, folder and sandbox.\n\n{unit.rstrip()}\n"
