"""Releases over the air in a twin: what an owner does, and a device that looks for a release when it is told to."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from nightjar.firmware_scripts import release_keys

ROOT = Path(__file__).parents[3]
RECORD = "/var/lib/nightjar/releases.json"
# A silent release is waited for: three minutes on a device, longer in one that is emulated, and less where it is known
# to stay silent.
_TRIAL_S, _SHORT_S, _TRIAL = 900, 60, "/etc/nightjar-trial"
# A device looks some minutes after its start, and then each hour. This one looks every 20 s, by its own process in its
# own sandbox, as soon as there is a file. A release that has to wait is tried again after 5 min; here sooner.
_LOOK = "/etc/nightjar-look"
_SOON = f"""\
import os, time

if "NIGHTJAR_RELEASE" in os.environ:
    try:
        from nightjar.edge_agent.shell.releases import ReleaseProcess
    except ImportError:  # a bad release has none
        pass
    else:
        again = [0.0]

        def ended(self, now_s, *, whole):
            again[0] = now_s + (20.0 if whole else 0.0)

        ReleaseProcess.due = lambda self, now_s, *, free: os.path.exists("{_LOOK}") and now_s >= again[0]
        ReleaseProcess.ended = ended
"""
# Loses power, without a word to anything, in one step of a release after the other. The list of them is on the card: on
# the other file system, so that writing it stores nothing there that a power cut would have lost.
FUSE = "/boot/firmware/fuse"
_BURNS = f"""\
import glob, json, os, time

def record():
    try:
        return json.load(open("{RECORD}"))
    except (OSError, ValueError):
        return {{}}

version, *steps = open("{FUSE}").read().split()
begun = {{
    "download": lambda: any(map(os.path.getsize, glob.glob("/var/lib/private/nightjar-agent/release/*.part"))),
    "unpack": lambda: os.path.exists(f"/opt/nightjar/releases/.{{version}}.part/requirements.lock"),
    "switch": lambda: (record().get("state"), record().get("version")) == ("trying", version),
    "trial": lambda: os.path.lexists("/run/systemd/units/invocation:nightjar-self-test.service"),
    "confirm": lambda: (record().get("state"), record().get("version")) == ("settled", version),
}}
while steps:
    try:
        if begun[steps[0]]():
            break
    except OSError:
        pass
    time.sleep(0.01)
with open("{FUSE}", "w") as file:
    file.write(" ".join([version, *steps[1:]]))
    file.flush()
    os.fsync(file.fileno())
if steps:
    open("/proc/sysrq-trigger", "w").write("b")
"""
STEPS = ("download", "unpack", "switch", "trial", "confirm")
_FUSE_UNIT = f"""\
[Unit]
ConditionPathExists={FUSE}
RequiresMountsFor=/boot/firmware
Before=nightjar-firstboot.service

[Service]
ExecStart=/usr/bin/python3 /usr/lib/nightjar_fuse.py
"""
_SOONER = f"""\
[Service]
Environment=NIGHTJAR_TRIAL_S={_TRIAL_S}
EnvironmentFile=-{_TRIAL}
RestartSec=20
"""
_UNITS = "etc/systemd/system"
FILES = {
    "usr/lib/nightjar_fuse.py": _BURNS,
    f"{_UNITS}/nightjar-fuse.service": _FUSE_UNIT,
    "usr/lib/python3/dist-packages/nightjar_soon.py": _SOON,
    "usr/lib/python3/dist-packages/nightjar_soon.pth": "import nightjar_soon\n",
    f"{_UNITS}/nightjar-release.service.d/soon.conf": _SOONER,
}
LINKS = {f"{_UNITS}/multi-user.target.wants/nightjar-fuse.service": "/etc/systemd/system/nightjar-fuse.service"}


class Owner:
    """SignatureCheck the offline keys, and publishes bundles on a coordinator."""

    def __init__(self, folder):
        self.folder = folder
        release_keys.make_repository(folder, release_keys.THRESHOLDS, datetime.now(UTC))
        self.root = folder / "metadata/1.root.json"

    def publish(self, fleet, *bundles, security=False):
        release_keys.add_bundles(self.folder, bundles, datetime.now(UTC), security=security)
        (online,) = (self.folder / "keys").glob("online-*.key")
        command = [sys.executable, "-m", "nightjar.coordinator", "release", "add", *bundles, "--config", fleet.path]
        command += ["--metadata", self.folder / "metadata", "--online-key", online]
        subprocess.run(command, cwd=ROOT, check=True)


def ask_for(fleet, action, version, share=1.0):
    """What an operator does on the page."""
    fleet.ask("POST", f"/releases/{version}", {"action": action, "reason": "a story", "share": share})


def tried(fleet, version):
    """How many devices run a release or went back from it, and how many trained with it."""
    counts = fleet.ask("GET", f"/releases/{version}")["health"]["tried"]
    return counts["devices"], counts["trained"]


def stage_of(fleet, version):
    """Where the rollout of a release is; the coordinator judges a trial once a minute."""
    return fleet.ask("GET", f"/releases/{version}")["rollout"]["stage"]


def look(guest):
    """From now on it looks for releases all the time, power cuts or not."""
    guest.shell(f"touch {_LOOK} && sync")


def shorten_trials(guest):
    """From now on a release that stays silent is given 60 s."""
    guest.shell(f"echo NIGHTJAR_TRIAL_S={_SHORT_S} > {_TRIAL} && sync")


def light_fuse(guest, version):
    """From now on its power is cut once in each step of this release."""
    guest.shell(f"echo {version} {' '.join(STEPS)} > {FUSE} && systemctl start nightjar-fuse")


def record(guest):
    """The device's record of its releases; reading it starts no program inside."""
    data = guest.read(RECORD)
    return json.loads(data) if data else {}
