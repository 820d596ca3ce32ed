"""Emulated phones that show a face, so that the real probes can be asked about a played day."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from nightjar.edge_agent.core.eligibility import Condition, Readings
from nightjar.edge_agent.emulator.day import PhoneState
from nightjar.edge_agent.emulator.phone import PlayedPhone, ScriptedConditions
from nightjar.edge_agent.shell.probes import Probe, Probes
from nightjar.edge_agent.shell.probes.adb import Adb
from nightjar.edge_agent.shell.probes.busy import Busy
from nightjar.edge_agent.shell.probes.command import run
from nightjar.edge_agent.shell.probes.heat import Heat
from nightjar.edge_agent.shell.probes.idle import Terminals
from nightjar.edge_agent.shell.probes.network import Network
from nightjar.edge_agent.shell.probes.power import Power
from nightjar.edge_agent.shell.probes.resources import Memory
from nightjar.edge_agent.shell.probes.termux import Termux
from nightjar.wire.errors import UnavailableError
from tests.edge_agent.emulator import faces
from tests.edge_agent.emulator.adb_server import AdbServer

SERIAL = "emulated-phone"


class Staged:
    """A probe: shows the phone's present state, and lets real probes look at it.

    Args:
        phone: that is played.
        show: writes the face; called when the state is another one, and before the first look.
        probes: that look.
    """

    def __init__(self, phone: PlayedPhone, show: Callable[[PhoneState], object], probes: Sequence[Probe]) -> None:
        self._phone = phone
        self._show = show
        self._probes = Probes(probes)
        self._shown: PhoneState | None = None

    def __call__(self) -> Readings:
        """Look now."""
        phone = self._phone.state()
        # Somebody who goes on using it does something all the time.
        if phone != self._shown or phone.in_use:
            self._show(phone)
            self._shown = phone
        return {
            condition: dataclasses.replace(reading, source=f"emulated: {reading.source}")
            for condition, reading in self._probes.read().items()
        }


def with_files(phone: PlayedPhone, root: Path, minimum_battery: float) -> Staged:
    """A phone that looks like a Linux device below a folder."""
    probes = (
        Power(root, minimum_battery),
        Heat(root, 45.0),
        Terminals(root, 60.0, phone.now_s),
        Busy(root, processor_s=lambda: 0.0),
        Network(root, "auto", _nothing_installed),
        Memory(root, 0),
    )
    return Staged(phone, lambda state: faces.write_files(root, state, phone.now_s()), probes)


def with_termux(phone: PlayedPhone, folder: Path, minimum_battery: float) -> tuple[Staged, Termux]:
    """A phone with Termux on it; what Termux does not tell is told by the script."""
    program = str(folder / "termux-battery-status")
    termux = Termux(minimum_battery, 45.0, lambda _command, timeout_s: run((program,), timeout_s))
    script = ScriptedConditions(phone, minimum_battery)

    def rest() -> Readings:
        told = script()
        return {condition: told[condition] for condition in (Condition.IDLE, Condition.UNMETERED)}

    return Staged(phone, lambda state: faces.write_termux(folder, state), (termux, rest)), termux


def with_adb(phone: PlayedPhone, minimum_battery: float) -> tuple[Staged, Adb, AdbServer]:
    """A phone on a cable; the server has to be served."""
    server = AdbServer(SERIAL, lambda command: faces.shell(phone.state(), command))

    def run_there(command: Sequence[str], timeout_s: float) -> str:
        return run((command[0], "-P", str(server.port), *command[1:]), timeout_s)

    adb = Adb(SERIAL, minimum_battery, 45.0, run_there)
    return Staged(phone, lambda _state: None, (adb,)), adb, server


def _nothing_installed(command: Sequence[str], timeout_s: float) -> str:
    msg = f"{command[0]}: not on an emulated phone"
    raise UnavailableError(msg)
