"""The checks of ``nightjar-device doctor``. The agent has its own doctor, which checks everything inside the agent."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator

from nightjar.firmware_scripts.core.checks import Finding, Level
from nightjar.firmware_scripts.device.health import Look
from nightjar.firmware_scripts.device.places import Places
from nightjar.firmware_scripts.device.releases import Empty, Record, Settled, State, Trying, Unpacking

LEAST_FREE_BYTES = 400_000_000
"""Space for a second release, including temporary files while it is unpacked."""


def checkup(places: Places, record: Record[State], look: Look) -> tuple[Finding, ...]:
    """Collect all findings."""
    return (*_release(places, record), *_agent(look), *_files(places))


def _release(places: Places, record: Record[State]) -> Iterator[Finding]:
    match record.state:
        case Empty():
            remedy = f"put a bundle on the card as {places.parcel}/bundle.tar, or: nightjar-device install BUNDLE"
            yield Finding("release", Level.FAULT, "no release of the agent is installed", remedy)
        case Unpacking(version):
            remedy = "wait; if the device was switched off meanwhile: systemctl start nightjar-firstboot"
            yield Finding("release", Level.NOTE, f"release {version} is being put in place", remedy)
        case Trying(version):
            remedy = "wait; what is missing is in nightjar-status.txt on the card"
            yield Finding("release", Level.NOTE, f"release {version} is tried", remedy)
        case Settled(version):
            whole = (places.current / "lib").is_dir()
            remedy = "" if whole else "install its bundle again: nightjar-device install --although-unwell BUNDLE"
            level = Level.GOOD if whole else Level.FAULT
            yield Finding("release", level, f"release {version} counts{'' if whole else ', but is not there'}", remedy)
    for version, reason in record.refused.items():
        yield Finding("release", Level.NOTE, f"release {version} was taken back: {reason}", "bring a newer one")


def _agent(look: Look) -> Iterator[Finding]:
    if look.up and look.connected:
        yield Finding("agent", Level.GOOD, f"it is up: {look.text}")
    elif look.up:
        remedy = "nightjar-agent doctor --config /etc/nightjar/agent.toml"
        yield Finding("agent", Level.FAULT, f"it is up, but not connected: {look.text}", remedy)
    else:
        yield Finding("agent", Level.FAULT, f"it does not run: {look.text}", "journalctl -u nightjar-agent -n 50")


def _files(places: Places) -> Iterator[Finding]:
    if not places.key.is_file():
        yield Finding("updates", Level.FAULT, "no key to check bundles with", f"copy the owner's .pub to {places.key}")
    else:
        yield Finding("updates", Level.GOOD, "bundles are checked with the owner's key")
    if shutil.which("openssl") is None:
        yield Finding("updates", Level.FAULT, "openssl is missing: no bundle can be checked", "apt install openssl")
    try:
        tomllib.loads(places.configuration.read_text(encoding="utf-8"))
        yield Finding("configuration", Level.GOOD, f"{places.configuration} can be read")
    except (OSError, ValueError) as error:
        yield Finding("configuration", Level.FAULT, f"{places.configuration}: {error}", "put a whole one there")
    if places.claim.exists():
        text = "a claim still waits: the device has not enrolled"
        yield Finding("enrolment", Level.FAULT, text, "systemctl restart nightjar-firstboot; see nightjar-status.txt")
    free = shutil.disk_usage(places.releases if places.releases.exists() else places.root).free
    if free < LEAST_FREE_BYTES:
        yield Finding("disk", Level.FAULT, f"{free // 10**6} MB free: no room for another release", "free some space")
    else:
        yield Finding("disk", Level.GOOD, f"{free // 10**6} MB free")
