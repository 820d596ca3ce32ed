"""Runs the effects of the releases' state machine on a real device."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

from nightjar.firmware_scripts.device import health
from nightjar.firmware_scripts.device.enrolling import enrol
from nightjar.firmware_scripts.device.health import Look, Time
from nightjar.firmware_scripts.device.installing import FETCHED, adopt
from nightjar.firmware_scripts.device.places import Places
from nightjar.firmware_scripts.device.releases import (
    Adopt,
    CheckHealth,
    Decline,
    Discard,
    Effect,
    Event,
    FoundHealthy,
    FoundUnhealthy,
    PointTo,
    Prune,
    RestartAgent,
    Tell,
    Unpack,
    Unpacked,
    UnpackFailed,
)
from nightjar.firmware_scripts.device.systemd import Systemd
from nightjar.host.files import replace_link, sync_folder
from nightjar.wire.errors import NightjarError, RemoteProtocolError


class Agent:
    """This device's agent as systemd sees it: a :class:`nightjar.firmware_scripts.device.health.Patient`."""

    def __init__(self, systemd: Systemd) -> None:
        self._systemd = systemd

    def look(self) -> Look:
        """The current state of the agent's unit."""
        seen = self._systemd.show(health.AGENT)
        text, restarts = seen.get("StatusText", ""), seen.get("NRestarts", "0")
        up = seen.get("ActiveState") == "active"
        description = text if up else f"{seen.get('ActiveState', 'unknown')}; {self._systemd.last_words(health.AGENT)}"
        connected = text.startswith(health.CONNECTED)
        return Look(up, connected, int(restarts) if restarts.isdigit() else 0, description)

    def self_test(self) -> str:
        """Train a step as the agent's own user, with its limits."""
        status = self._systemd.work(health.SELF_TEST)
        return f"status {status}: {self._systemd.last_words(health.SELF_TEST)}" if status else ""


@dataclass(slots=True)
class DeviceActions:
    """Implements :class:`nightjar.firmware_scripts.device.switch.SystemActions`."""

    places: Places
    systemd: Systemd
    tell: Callable[[str], None]
    time: Time  # the clock and time limit for the trial of a release
    unpack: Callable[[], None]  # unpacks the offered bundle; raises NightjarError
    moved: bool = False  # whether ``current`` has changed since the agent was started
    started: bool = False  # whether the agent was started by this process and not at boot

    def run(self, effect: Effect) -> Event | None:
        """Run one effect.

        Raises:
            OSError: the effect cannot be run now; it is run again after the next boot.
        """
        match effect:
            case Unpack():
                try:
                    self.unpack()
                except (NightjarError, OSError) as error:
                    return UnpackFailed(str(error)[:300], lasting=isinstance(error, RemoteProtocolError))
                return Unpacked()
            case Discard(version):
                for name in (version, f".{version}.part"):
                    shutil.rmtree(self.places.releases / name, ignore_errors=True)
            case Adopt(version, counts):
                # Reloading all units takes a slow board seconds, and usually nothing has changed.
                if adopt(self.places, version, counts=counts):
                    self.systemd.reload()
                    # Power may have been cut before the agent was enabled at boot.
                    self.moved |= not self.started
                    if counts:
                        self.systemd.start(FETCHED[0])
            case PointTo(version):
                self.moved |= replace_link(self.places.current, f"releases/{version}")
            case RestartAgent(only_if_moved):
                if self.systemd.live and (self.moved or not only_if_moved):
                    enrol(self.places.claim, self.systemd, self.tell)
                    self.systemd.restart(health.AGENT)
                    self.moved, self.started = False, True
            case CheckHealth():
                # If not live, an image is being built or the first boot is not complete; the trial follows at boot.
                if self.systemd.live:
                    reason = health.examine(Agent(self.systemd), self.time)
                    return FoundUnhealthy(reason[:300]) if reason else FoundHealthy()
            case Prune(keep):
                for folder in self.places.releases.iterdir():
                    if folder.name not in keep:
                        shutil.rmtree(folder, ignore_errors=True)
                sync_folder(self.places.releases)
            case Tell(text) | Decline(_, text):
                self.tell(text)
        return None

    def enrol_again(self) -> bool:
        """Exchange a claim for a new identity beside a settled release, and restart the agent to use it.

        Returns whether nothing is left to do.
        """
        if not enrol(self.places.claim, self.systemd, self.tell):
            return False
        self.systemd.restart(health.AGENT)
        return True
