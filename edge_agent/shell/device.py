"""Selects the probes that read a device's conditions, according to the configuration.

Both the running agent and the separate commands use it, so they see the same conditions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nightjar.edge_agent.config import AgentConfig
from nightjar.edge_agent.emulator.day import state_at
from nightjar.edge_agent.emulator.phone import PlayedPhone, ScriptedConditions
from nightjar.edge_agent.ports import Clock
from nightjar.edge_agent.shell.folder import TYPED
from nightjar.edge_agent.shell.no_transport import not_enrolled
from nightjar.edge_agent.shell.probes import Probe, Probes
from nightjar.edge_agent.shell.probes.adb import Adb
from nightjar.edge_agent.shell.probes.background import Background
from nightjar.edge_agent.shell.probes.busy import Busy
from nightjar.edge_agent.shell.probes.heat import Heat
from nightjar.edge_agent.shell.probes.idle import InputDevices, Keyboard, Terminals, TypingActivity
from nightjar.edge_agent.shell.probes.network import Network
from nightjar.edge_agent.shell.probes.power import Power
from nightjar.edge_agent.shell.probes.raspberry import Raspberry
from nightjar.edge_agent.shell.probes.resources import Disk, Memory
from nightjar.edge_agent.shell.probes.sessions import Sessions
from nightjar.edge_agent.shell.probes.termux import Termux
from nightjar.edge_agent.shell.probes.user_preferences import UserPreferences, minute_of_day

SLOWEST_QUESTION_S = 12.0
"""Longest time for the first answer of a probe that runs in the background."""


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """Reads all conditions of this device; ``questions`` are asked in the background."""

    conditions: Probes
    questions: Sequence[Background[Any]] = ()

    def ask_all(self) -> None:
        """Wait until every question has its first answer."""
        self.conditions.read()
        for question in self.questions:
            question.wait(SLOWEST_QUESTION_S)


def typing_activity(config: AgentConfig) -> TypingActivity:
    """The record of when somebody last typed on this device's keyboard page."""
    return TypingActivity(config.data_dir / TYPED)


def assembled_device(
    config: AgentConfig,
    clock: Clock,
    typing: TypingActivity,
    learning_paused: Callable[[], bool],
    emulation_started_s: float,
    further: Sequence[Probe] = (),
) -> DeviceProfile:
    """The device that a configuration describes.

    ``emulation_started_s`` is when an emulated phone was first started, on the wall clock; ``further`` are probes of
    the running agent itself.
    """
    settings, emulator = config.conditions, config.emulator
    keyboard = Keyboard(typing, settings.idle_after_s)
    preferences = partial(UserPreferences, learning_paused, settings.quiet_hours)
    if emulator is not None:
        script = partial(state_at, emulator.day, emulator.seed)
        phone = PlayedPhone(script, emulator.speed, emulator.start_hour, emulation_started_s, clock.wall_s)
        hours = preferences(phone.minute, "emulated day")
        return DeviceProfile(Probes((*further, hours, ScriptedConditions(phone, settings.minimum_battery), keyboard)))
    own: list[Probe] = [*further] if config.connects else [*further, not_enrolled]
    own.append(preferences(lambda: minute_of_day(clock.wall_s())))
    disk = Disk(config.data_dir, settings.minimum_free_disk_bytes)
    memory = Memory(settings.root, settings.minimum_free_memory_bytes)
    match settings.source:
        case "linux":
            return _linux(config, [*own, keyboard, disk, memory])
        case "termux":
            termux = Termux(settings.minimum_battery, settings.maximum_temperature_c)
            network = Network(settings.root, settings.metered)
            return DeviceProfile(
                Probes((*own, termux, keyboard, network, disk, memory)), (termux.question, network.question)
            )
        case "adb":
            adb = Adb(os.environ.get("ANDROID_SERIAL", ""), settings.minimum_battery, settings.maximum_temperature_c)
            return DeviceProfile(Probes((*own, adb, keyboard, disk, memory)), (adb.question,))


def _linux(config: AgentConfig, own: list[Probe]) -> DeviceProfile:
    settings, root = config.conditions, config.conditions.root
    network, raspberry = Network(root, settings.metered), Raspberry(root)
    probes: list[Probe] = [
        *own,
        Power(root, settings.minimum_battery, settings.always_powered),
        Heat(root, settings.maximum_temperature_c),
        raspberry,
        Terminals(root, settings.idle_after_s),
        Busy(root),
        network,
    ]
    questions: list[Background[Any]] = [network.question, raspberry.question]
    if settings.watch_input_devices:
        probes.append(InputDevices(root, settings.idle_after_s))
    if settings.ask_logind:
        sessions = Sessions()
        probes.append(sessions)
        questions.append(sessions.question)
    return DeviceProfile(Probes(probes), questions)
