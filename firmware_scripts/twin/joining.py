"""The story of a device that joins: it starts, enrols, is typed on, is plugged in, checks in, trains, and counts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firmware_scripts.twin.battery import set_charging
from firmware_scripts.twin.coordinator import Coordinator
from firmware_scripts.twin.guest import Guest
from firmware_scripts.twin.person import type_sentences
from firmware_scripts.twin.process import BOOTED, Qemu
from wire.errors import UnavailableError

# The agent is at work, or was: it checked in before.
CHECKED_IN = frozenset({"checked-in", "preparing", "training", "reporting", "resting"})
_LOOK_EVERY_S = 1.0
# Key and certificate of an enrolled device (docs/enrolment.md); its folder is its own user's.
_IDENTITY = "/var/lib/private/nightjar-agent/identity"


@dataclass(slots=True)
class Milestones:
    """When what happened, in seconds since the machine was switched on; None if it did not.

    Attributes:
        device: its name, as the coordinator knows it.
        booted_s: everything that starts with the device has started.
        enrolled_s: it holds a certificate of its own; None also where there is no claim.
        online_s: the coordinator heard of it.
        checked_in_s: it offered to take part.
        report_committed: a report of it is in a committed round.
        committed_s: when that was seen.
        round: the number of that round.
    """

    device: str = ""
    booted_s: float | None = None
    enrolled_s: float | None = None
    online_s: float | None = None
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
    """Follow a machine from its start to a committed round.

    Args:
        machine: that was just switched on.
        guest: its inside.
        coordinator: that it joins.
        device: its name there; empty where it gets one when it enrols.
        sentences: what its person types.
        tell: told each step in words.
        deadline_s: since it was switched on.
        enrols: whether it has a claim to enrol with.

    Raises:
        UnavailableError: a step was not reached in time; the message says what the device said last.
    """
    found = Milestones(device)
    before = coordinator.newest_round() - 1  # one that is open now may be the one that counts

    def now_s() -> float:
        return round(time.monotonic() - machine.started_s, 1)

    found.booted_s = round(machine.wait_for(BOOTED, deadline_s), 1)
    tell(f"booted after {found.booted_s} s")
    guest.wait_until_there(deadline_s - now_s())
    set_charging(guest, charging=True)
    tell(f"plugged in after {now_s()} s: the kernel says that it is charging")
    typed = False
    last = ""
    while not found.report_committed:
        if now_s() > deadline_s or not machine.running():
            what = last or "the coordinator never heard of it"
            msg = f"the twin is in no committed round after {deadline_s:.0f} s: {what}\n{_status(guest)}"
            raise UnavailableError(msg)
        if enrols and found.enrolled_s is None and (named := _enrolled_as(guest)):
            found.enrolled_s, found.device = now_s(), named
            tell(f"enrolled after {found.enrolled_s} s, as {named}")
        state = coordinator.device(found.device) if found.device else None
        if state is not None:
            found.online_s = found.online_s or now_s()
            said = f"{state['state']}: {state['reason']}" if state["reason"] else state["state"]
            if said != last:
                last = said
                tell(f"{now_s():6.1f} s  {found.device} is {said}")
            if found.checked_in_s is None and state["state"] in CHECKED_IN:
                found.checked_in_s = now_s()
        # Not before the agent is up: every try starts a Python in a machine that has better things to do.
        if not typed and state is not None and state["state"] != "offline":
            typed = _try_to_type(guest, sentences, tell)
        number = coordinator.counted(found.device, before) if found.checked_in_s is not None else None
        if number is not None:
            found.report_committed, found.round, found.committed_s = True, number, now_s()
            tell(f"its report is in round {number}, which was committed after {found.committed_s} s")
        else:
            time.sleep(_LOOK_EVERY_S)
    return found


def _enrolled_as(guest: Guest) -> str:
    """The name that the coordinator gave the device; empty if it has none yet."""
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
