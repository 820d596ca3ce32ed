"""The paths of everything on a device, below a root that is ``/`` on a real device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """The paths on a device; ``root`` is another folder while an image is built, and in tests."""

    root: Path = Path("/")

    @property
    def releases(self) -> Path:
        """The folder that holds one folder per release."""
        return self.root / "opt/nightjar/releases"

    @property
    def current(self) -> Path:
        """The link to the running release."""
        return self.root / "opt/nightjar/current"

    @property
    def program(self) -> Path:
        """This program. It lies outside the releases because it must work when none of them does."""
        return self.root / "opt/nightjar/nightjar-device.pyz"

    @property
    def commands(self) -> Path:
        """The folder where shells find the commands."""
        return self.root / "usr/local/bin"

    @property
    def units(self) -> Path:
        """The folder of systemd units."""
        return self.root / "etc/systemd/system"

    @property
    def configuration(self) -> Path:
        """The agent's settings."""
        return self.root / "etc/nightjar/agent.toml"

    @property
    def key(self) -> Path:
        """The public key that bundles for this device must be signed with."""
        return self.root / "etc/nightjar/bundle.pub"

    @property
    def kept(self) -> Path:
        """The folder for this program's state."""
        return self.root / "var/lib/nightjar"

    @property
    def record(self) -> Path:
        """The file with the state of the releases."""
        return self.kept / "releases.json"

    @property
    def handed_over(self) -> Path:
        """The agent's folder in which it leaves what it fetched; the agent owns it, so nothing in it is trusted."""
        return self.root / "var/lib/nightjar-agent/release"

    @property
    def incoming(self) -> Path:
        """A bundle taken over from the agent."""
        return self.kept / "incoming.tar"

    @property
    def not_taken(self) -> Path:
        """Why the last bundle taken over from the agent is not used; the agent reads it."""
        return self.kept / "not-taken"

    @property
    def card(self) -> Path:
        """The boot partition, which a person can read with any computer."""
        return self.root / "boot/firmware"

    @property
    def parcel(self) -> Path:
        """The folder that ``customise`` put on the boot partition."""
        return self.card / "nightjar"

    @property
    def claim_on_card(self) -> Path:
        """The claim as delivered on the card, which the device may enrol with once. FAT cannot protect it by owner."""
        return self.parcel / "claim.json"

    @property
    def claim(self) -> Path:
        """The claim after it was moved off the card, readable by root only."""
        return self.kept / "claim.json"

    @property
    def status(self) -> Path:
        """The status file, for a person who pulls the card out of a silent device."""
        return self.card / "nightjar-status.txt"
