"""How a story of a twin goes on: it waits for what the device or its coordinator says, never for a time."""

import contextlib
import re
import subprocess
import time

from nightjar.edge_agent.core.sandbox import Unit, lacking, unit_of, wanted
from nightjar.firmware_scripts.image.disk import ROOT
from nightjar.firmware_scripts.image.tools import environment
from nightjar.firmware_scripts.twin.joining import join
from nightjar.firmware_scripts.twin.person import sentences, set_charging
from nightjar.firmware_scripts.twin.running import DISK, Twin, prepare
from nightjar.wire.errors import UnavailableError
from tests.deploy.sandboxes import MOST_EXPOSURE
from tests.firmware_scripts.twin.fleet import PATIENCE_S, PERSON, SSH_KEY, order
from tests.firmware_scripts.twin.over_the_air import ask_for, record
from tests.firmware_scripts.twin.power import what_the_kernel_says

IDENTITY = "/var/lib/private/nightjar-agent/identity"
# Shell inside the device: its release counts, and whoever sees to that has ended.
SETTLED = "nightjar-device status | grep -q settled"
AT_WORK = "systemctl is-active nightjar-firstboot"


def twin_of(image, bundle, fleet, folder, name):
    """A new device with a claim of its own on its card."""
    claim = fleet.claim(f"for-{name}", device=name)
    return prepare(image, folder / name, order(bundle, name, claim))


def copy_of(twin, folder):
    """The same device once more, as if its card had been copied: a story may break it."""
    folder.mkdir()
    subprocess.run(["cp", "--sparse=always", twin.folder / DISK, folder / DISK], check=True)
    return Twin(folder, twin.board)


def until(holds, what):
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"never {what}"
        time.sleep(0.5)


def there(guest):
    """Wait for the inside of a machine: it answers before everything has started."""
    guest.wait_until_there(PATIENCE_S)
    return guest


def eventually(guest, script):
    """Wait until a line of shell inside ends well; each look costs the device a process or two."""

    def holds():
        try:
            guest.shell(script)
        except UnavailableError:
            return False
        return True

    until(holds, script)


def join_until_unplugged(twin, machine, fleet, name):
    """A new device joins its fleet, trains, and stops when it is unplugged; then it is settled, and at rest."""
    lines = []
    found = join(machine, twin.guest, fleet.seen(), "", sentences(), lines.append, PATIENCE_S, enrols=True)
    print("\n".join(lines))
    assert found.device == name
    assert 0 < found.booted_s <= found.checked_in_s <= found.committed_s
    assert found.enrolled_s is not None
    assert found.report_committed
    assert fleet.standings()[name] == ["active"]
    assert what_the_kernel_says(twin.guest)["test_ac/online"] == "1"

    set_charging(twin.guest, charging=False)
    assert what_the_kernel_says(twin.guest)["test_battery/status"] == "Discharging"
    until(lambda: fleet.device(name)["reason"] == "not charging", "told that it is not charging")
    assert fleet.device(name)["state"] == "ineligible"

    eventually(twin.guest, f"{SETTLED} && ! {AT_WORK}")


def switch_off(twin, machine):
    with contextlib.suppress(UnavailableError):  # it may be off before it has answered
        twin.guest.shell("systemctl --no-block poweroff")
    until(lambda: not machine.running(), "switched off")


def is_whole(twin):
    """Its root file system, looked at from outside: not one fault."""
    checked = subprocess.run(
        ["e2fsck", "-fn", f"{twin.folder / DISK}?offset={ROOT.start}"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    print(checked.stdout)
    return checked.returncode == 0


def told(fleet, name, version):
    """The coordinator's words about a release that was taken back; empty as long as it knows nothing."""
    found = str(fleet.device(name).get("taken_back") or "")
    return found if found.startswith(version) else ""


def is_sandboxed(guest):
    """What systemd inside says of the units that ran: how exposed each is, and that none failed or was in want."""
    units = " ".join(f"{name}.service" for name in MOST_EXPOSURE)
    said = guest.shell(f"LC_ALL=C systemd-analyze security --no-pager {units} | grep -a 'exposure level'")
    print(said)
    exposures = {name: float(score) for name, score in re.findall(r"level for (\S+)\.service: ([\d.]+)", said)}
    assert exposures.keys() == MOST_EXPOSURE.keys()
    assert {name: score for name, score in exposures.items() if score > MOST_EXPOSURE[name]} == {}
    assert guest.shell("systemctl list-units --failed --plain --no-legend 'nightjar-*'") == ""
    # What doctor goes by.
    asked = f"systemctl show nightjar-agent.service --property={','.join(wanted(of_a_person=False))}"
    shown = dict(line.split("=", 1) for line in guest.shell(asked).splitlines())
    assert lacking(shown, of_a_person=False) == ()
    cgroups = guest.shell("cat /proc/$(systemctl show nightjar-agent.service --property=MainPID --value)/cgroup")
    assert unit_of(cgroups) == Unit("nightjar-agent.service", of_a_person=False)
    refused = "Read-only file system|Operation not permitted|Permission denied|Address family not supported"
    assert guest.shell(f"journalctl --boot --output=cat --unit 'nightjar-*' | grep -aE '{refused}' || true") == ""


def was_set_up(guest, name):
    """What the first run was to do was done, although little of root was left to it."""
    assert guest.shell("cat /proc/sys/kernel/hostname /etc/hostname").split() == [name, name]
    home = f"/home/{PERSON}"
    found = guest.shell(f"stat --format='%U %a %n' {home}/.ssh {home}/.ssh/authorized_keys").splitlines()
    assert found == [f"{PERSON} 700 {home}/.ssh", f"{PERSON} 600 {home}/.ssh/authorized_keys"]
    assert guest.shell(f"cat {home}/.ssh/authorized_keys").strip() == SSH_KEY
    assert "failed with status" not in guest.shell("cat /boot/firmware/nightjar-status.txt")


def ordered(fleet, owner, bundle, version, *, security=False, share=1.0):
    """A release that the coordinator offers to a share of the devices."""
    owner.publish(fleet, bundle, security=security)
    ask_for(fleet, "start", version, share)


def settles(guest, version):
    """Wait until a release counts on a device."""
    until(lambda: record(guest) | {"state": "settled", "version": version} == record(guest), f"settled on {version}")
