"""Follows a device until it has joined: it boots, enrols, gets power and text, checks in, trains, and is counted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nightjar.firmware_scripts.twin.coordinator import Coordinator
from nightjar.firmware_scripts.twin.guest import Guest
from nightjar.firmware_scripts.twin.person import has_battery, set_charging, type_sentences
from nightjar.firmware_scripts.twin.process import BOOTED, Qemu
from nightjar.wire.errors import UnavailableError

# States that the agent reaches only after a check-in.
CHECKED_IN = frozenset({"checked-in", "preparing", "training", "reporting", "resting"})
_LOOK_EVERY_S = 1.0
# Key and certificate of an enrolled device (docs/enrolment.md); the folder belongs to the agent's user.
_IDENTITY = "/var/lib/private/nightjar-agent/identity"


@dataclass(slots=True)
class Milestones:
    """The times at which a device reached each step, in seconds since power-on; None if it did not."""

    device: str = ""  # its name at the coordinator
    booted_s: float | None = None  # when all units enabled at boot had started
    enrolled_s: float | None = None  # when the device held its own certificate; None also if there is no claim
    online_s: float | None = None  # when the coordinator first saw the device
    checked_in_s: float | None = None
    report_committed: bool = False
    committed_s: float | None = None
    round: int | None = None


def join(
    machine: Qemu,
    guest: Guest,
    coordinator: Coordinator,
    device: str,
    sentences: Sequence[str],
    tell: Callable[[str], None],
    deadline_s: float,
    *,
    enrols: bool,
) -> Milestones:
    """Follow a machine from power-on to a committed round.

    ``device`` is its name; empty if it is assigned at enrolment, which it ``enrols`` for with a claim. ``tell``
    receives a line for each step. The deadline counts from power-on.

    Raises:
        UnavailableError: a step was not reached in time; the message has the device's last status.
    """
    milestones = Milestones(device)
    before = coordinator.newest_round() - 1  # a round that is open now may be the one that counts

    def now_s() -> float:
        return round(time.monotonic() - machine.started_s, 1)

    milestones.booted_s = round(machine.wait_for(BOOTED, deadline_s), 1)
    tell(f"booted after {milestones.booted_s} s")
    guest.wait_until_there(deadline_s - now_s())
    if has_battery(guest):
        set_charging(guest, charging=True)
        tell(f"plugged in after {now_s()} s: the kernel says that it is charging")
    typed = False
    last = ""
    while not milestones.report_committed:
        if now_s() > deadline_s or not machine.running():
            what = last or "the coordinator never heard of it"
            msg = f"the twin is in no committed round after {deadline_s:.0f} s: {what}\n{_status(guest)}"
            raise UnavailableError(msg)
        if enrols and milestones.enrolled_s is None and (named := _enrolled_as(guest)):
            milestones.enrolled_s, milestones.device = now_s(), named
            tell(f"enrolled after {milestones.enrolled_s} s, as {named}")
        state = coordinator.device(milestones.device) if milestones.device else None
        if state is not None:
            milestones.online_s = milestones.online_s or now_s()
            status = f"{state['state']}: {state['reason']}" if state["reason"] else state["state"]
            if status != last:
                last = status
                tell(f"{now_s():6.1f} s  {milestones.device} is {status}")
            if milestones.checked_in_s is None and state["state"] in CHECKED_IN:
                milestones.checked_in_s = now_s()
        # Wait until the agent is up: every attempt starts a Python process in a busy machine.
        if not typed and state is not None and state["state"] != "offline":
            typed = _try_to_type(guest, sentences, tell)
        number = coordinator.counted(milestones.device, before) if milestones.checked_in_s is not None else None
        if number is not None:
            milestones.report_committed, milestones.round, milestones.committed_s = True, number, now_s()
            tell(f"its report is in round {number}, which was committed after {milestones.committed_s} s")
        else:
            time.sleep(_LOOK_EVERY_S)
    return milestones


def _enrolled_as(guest: Guest) -> str:
    """The name that the coordinator assigned to the device; empty if it has none yet."""
    identity = guest.read(f"{_IDENTITY}/identity.json")
    if not identity or not guest.read(f"{_IDENTITY}/credential.pem"):
        return ""
    return str(json.loads(identity)["device"])


def _status(guest: Guest) -> str:
    try:
        return guest.shell("tail -n 8 /boot/firmware/nightjar-status.txt")
    except UnavailableError:
        return ""


def _try_to_type(guest: Guest, sentences: Sequence[str], tell: Callable[[str], None]) -> bool:
    try:
        kept = type_sentences(guest, sentences, 120.0)
    except UnavailableError:
        return False  # the keyboard is not up yet
    tell(f"{kept} sentences typed on its keyboard")
    return True
