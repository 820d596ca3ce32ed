"""``nightjar-device``: manages the agent's releases on this device. Runs as root with the system's Python."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from nightjar.firmware_scripts.device.boot import boot
from nightjar.firmware_scripts.device.checkup import checkup
from nightjar.firmware_scripts.device.handing_over import (
    done_with_bundle,
    done_with_withdrawal,
    is_news,
    take_bundle,
    withdrawal,
)
from nightjar.firmware_scripts.device.health import Time
from nightjar.firmware_scripts.device.installing import remove
from nightjar.firmware_scripts.device.places import Places
from nightjar.firmware_scripts.device.record_file import RecordFile, encode
from nightjar.firmware_scripts.device.releases import Decline, Offered, Record, Settled, State, running
from nightjar.firmware_scripts.device.status_log import StatusLog
from nightjar.firmware_scripts.device.switch import Switch
from nightjar.firmware_scripts.device.system_actions import Agent, DeviceActions
from nightjar.firmware_scripts.device.systemd import Systemd, is_live
from nightjar.firmware_scripts.device.unpacking import open_bundle, unpack
from nightjar.host.locks import take_lock
from nightjar.wire.errors import ConfigError, NightjarError, RemoteProtocolError, UnavailableError

TRIAL_S = 180.0
"""How long a release may take to be up and connected; most of it allows for a slow card and a slow network."""
EXIT_NO = 4
_LATER = frozenset({"not-now", "busy"})
"""Answers to an offer that may be another one soon."""
_RELEASE = "nightjar-release.service"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 2 needs a person, 3 try again, 4 the answer is no."""
    asked = _parser().parse_args(arguments)
    try:
        status: int = asked.run(asked)
    except (NightjarError, OSError) as error:
        StatusLog(Places(asked.root).status)(f"nightjar-device: {error}")
        # A bundle that is invalid or not signed by the owner needs a person; retrying does not help.
        if isinstance(error, RemoteProtocolError):
            return ConfigError.exit_status
        return error.exit_status if isinstance(error, NightjarError) else UnavailableError.exit_status
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nightjar-device", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path("/"), help="another folder than /, for images")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    install = commands.add_parser("install", help="put a release in place and try it")
    install.add_argument("bundle", type=Path)
    install.add_argument("--although-unwell", action="store_true", help="also while the present release is not well")
    install.add_argument("--no-start", action="store_true", help="leave the trial to nightjar-firstboot.service")
    install.add_argument("--pip-options", default="", help="for an image of another machine")
    install.set_defaults(run=_install)
    check = commands.add_parser("check", help="check a bundle, and do nothing with it")
    check.add_argument("bundle", type=Path)
    check.add_argument("--key", type=Path, help="whose bundles are taken; without it, as this device was told")
    check.set_defaults(run=_check)
    ordered = commands.add_parser("ordered", help="what the agent fetched for the coordinator, or gives back")
    ordered.set_defaults(run=_ordered)
    commands.add_parser("boot", help="what happens at each start").set_defaults(run=_boot)
    status = commands.add_parser("status", help="which release runs, and which were taken back")
    status.set_defaults(run=_status)
    doctor = commands.add_parser("doctor", help="what may keep this device from taking part")
    doctor.add_argument("--json", action="store_true")
    doctor.set_defaults(run=_doctor)
    uninstall = commands.add_parser("uninstall", help="take everything away again")
    uninstall.add_argument("--with-data", action="store_true", help="also what was typed, and the device's identity")
    uninstall.set_defaults(run=_uninstall)
    return parser


def _install(asked: argparse.Namespace) -> int:
    systemd = Systemd(live=False) if asked.no_start else _systemd(Places(asked.root))
    options = asked.pip_options.split()
    status, _ = install(Places(asked.root), systemd, asked.bundle, options, although_unwell=asked.although_unwell)
    return status


def install(
    places: Places, systemd: Systemd, path: Path, pip_options: Sequence[str] = (), *, although_unwell: bool = False
) -> tuple[int, Decline | None]:
    """Offer a bundle to the device's releases; returns the exit status, and why the offer was declined."""
    present = running(RecordFile(places).load().state)
    bundle = open_bundle(path, places.key, for_this_machine=not pip_options, present=present)
    well = although_unwell or not systemd.live or _is_well(systemd)
    actions = _actions(places, systemd)
    actions.unpack = lambda: unpack(bundle, places, pip_options)
    record, declined = _switch(places, actions).take(Offered(bundle.version, well))
    if running(record.state) == bundle.version:
        return 0, None
    taken = declined is None and bundle.version not in record.refused
    return UnavailableError.exit_status if taken else EXIT_NO, declined


def _ordered(asked: argparse.Namespace) -> int:
    places = Places(asked.root)
    systemd = _systemd(places)
    restarts = systemd.show(_RELEASE).get("NRestarts", "")
    if not is_news(places) and restarts.isdigit() and not tries_again(int(restarts)):
        return UnavailableError.exit_status
    return ordered(places, systemd)


def tries_again(restarts: int) -> bool:
    """Whether this start of the unit, one each 5 minutes, tries again: rarely in the end, because it unpacks a bundle.

    The unit's own back-off came with systemd 254; Debian 12 has 252.

    >>> [restarts for restarts in range(30) if tries_again(restarts)]
    [0, 1, 2, 4, 8, 12, 24]
    """
    return restarts in {1, 2, 4, 8} or restarts % 12 == 0


def ordered(places: Places, systemd: Systemd) -> int:
    """Handle what the agent handed over; exit status 3 asks to be run again later."""
    if not isinstance(RecordFile(places).load().state, Settled):
        return UnavailableError.exit_status  # the first boot, or a trial that a power cut interrupted, comes first
    if (withdrawn := withdrawal(places)) is not None:
        _switch(places, _actions(places, systemd)).take(withdrawn)
    done_with_withdrawal(places)
    path = take_bundle(places)
    if path is None:
        return 0
    try:
        status, declined = install(places, systemd, path)
    except RemoteProtocolError as error:
        done_with_bundle(places, str(error))
        raise
    if status == UnavailableError.exit_status or (declined is not None and declined.code in _LATER):
        return UnavailableError.exit_status
    done_with_bundle(places, declined.text if declined else "")
    return status


def _check(asked: argparse.Namespace) -> int:
    key = asked.key or Places(asked.root).key
    bundle = open_bundle(asked.bundle, key)
    print(f"{bundle.path} holds release {bundle.version} for this device, signed by the key in {key}")
    return 0


def _boot(asked: argparse.Namespace) -> int:
    places = Places(asked.root)
    systemd = _systemd(places)
    if not systemd.live:
        msg = "systemd does not run this machine (or not all of it yet), so nothing can be started"
        raise UnavailableError(msg)
    actions = _actions(places, systemd)

    def offer() -> Offered:
        bundle = open_bundle(places.parcel / "bundle.tar", places.key)
        actions.unpack = lambda: unpack(bundle, places)
        return Offered(bundle.version, present_is_well=True)

    boot(places, _switch(places, actions), offer, actions.enrol_again, time.sleep)
    return 0


def _status(asked: argparse.Namespace) -> int:
    print(encode(RecordFile(Places(asked.root)).load()).decode(), end="")
    return 0


def _doctor(asked: argparse.Namespace) -> int:
    places = Places(asked.root)
    record: Record[State] = RecordFile(places).load()
    findings = checkup(places, record, Agent(_systemd(places)).look())
    if asked.json:
        rows = [{"category": f.category, "level": f.level.value, "text": f.text, "remedy": f.remedy} for f in findings]
        print(json.dumps(rows, indent=1))
    else:
        for finding in findings:
            print(f"{finding.level.value:5}  {finding.category}: {finding.text}")
            if finding.remedy:
                print(f"       {finding.remedy}")
    return EXIT_NO if any(finding.level.value == "fault" for finding in findings) else 0


def _uninstall(asked: argparse.Namespace) -> int:
    places = Places(asked.root)
    systemd = _systemd(places)
    for unit in ("nightjar-release.path", "nightjar-firstboot.service", "nightjar-agent.service"):
        systemd.stop(unit)
    remove(places, with_data=asked.with_data)
    systemd.reload()
    kept = "" if asked.with_data else "; what was typed and the device's identity are kept"
    print(f"uninstalled{kept}")
    return 0


def _switch(places: Places, actions: DeviceActions) -> Switch:
    return Switch(RecordFile(places), actions, partial(_alone, places))


def _actions(places: Places, systemd: Systemd) -> DeviceActions:
    tell = StatusLog(places.status)
    limit_s = float(os.environ.get("NIGHTJAR_TRIAL_S", TRIAL_S))
    trial = Time(time.monotonic, time.sleep, limit_s)
    return DeviceActions(places, systemd, tell, trial, lambda: None)


def _systemd(places: Places) -> Systemd:
    return Systemd(live=places.root == Path("/") and is_live())


def _is_well(systemd: Systemd) -> bool:
    look = Agent(systemd).look()
    return look.up and look.connected


@contextmanager
def _alone(places: Places) -> Iterator[None]:
    places.kept.mkdir(parents=True, exist_ok=True)
    try:
        lock = take_lock(places.kept / "lock")
    except BlockingIOError as error:
        msg = "another nightjar-device is at work (the first boot may be): wait for it, see nightjar-status.txt"
        raise UnavailableError(msg) from error
    with lock:
        yield


if __name__ == "__main__":
    sys.exit(main())
