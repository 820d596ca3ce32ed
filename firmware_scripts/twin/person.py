"""The twin's simulated user: types on the device's own keyboard, through its page's interface, and plugs it in.

The charger is the kernel's test power supply, set through its module's parameters, so what the agent reads in
/sys/class/power_supply comes from the kernel itself. Source: Linux 6.1, drivers/power/supply/test_power.c.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import resources

from nightjar.firmware_scripts.twin.guest import Guest
from nightjar.wire.errors import UnavailableError

_PARAMETERS = "/sys/module/test_power/parameters"
# The keyboard's page answers only requests from the device itself that hold its key, so root sends them from inside.
_TYPES = """\
import json, sys, urllib.request
kept, key = 0, open("/var/lib/nightjar-agent/keyboard.key").read()
for line in sys.stdin:
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + key}
    request = urllib.request.Request("http://127.0.0.1:8700/api/messages", line.encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        kept = json.load(answer)["stored"]
print("kept", kept)
"""


def sentences() -> tuple[str, ...]:
    """The default text that the simulated user types."""
    text = (resources.files("nightjar.firmware_scripts.twin") / "sentences.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line)


def type_sentences(guest: Guest, texts: Sequence[str], deadline_s: float) -> int:
    """Type and send each sentence; return how many messages the device now holds.

    Raises:
        UnavailableError: the keyboard does not answer. It may not have started yet.
    """
    given = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    done = guest.run(["/usr/bin/python3", "-c", _TYPES], given=given, deadline_s=deadline_s)
    match = re.search(r"^kept (\d+)$", done.output, re.MULTILINE)
    if done.status or match is None:
        # The end of a traceback names the fault and does not contain the typed text.
        msg = f"the keyboard in the machine does not answer: {done.output.strip().splitlines()[-1:]}"
        raise UnavailableError(msg)
    return int(match[1])


def has_battery(guest: Guest) -> bool:
    """Whether the machine has a battery; one without is always on mains."""
    return guest.read(f"{_PARAMETERS}/ac_online") is not None


def set_charging(guest: Guest, *, charging: bool) -> None:
    """Connect or disconnect the charger.

    Raises:
        UnavailableError: its kernel lacks the module.
    """
    plug, battery = ("on", "charging") if charging else ("off", "discharging")
    settings = {"ac_online": plug, "usb_online": plug, "battery_status": battery, "battery_capacity": "80"}
    guest.shell(" && ".join(f"echo {value} > {_PARAMETERS}/{name}" for name, value in settings.items()))
