"""Where everything lies on a device, below a root that is ``/`` on a real one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """The paths; ``root`` is another folder while an image is made, and in tests."""

    root: Path = Path("/")

    @property
    def releases(self) -> Path:
        """One folder for each release."""
        return self.root / "opt/nightjar/releases"

    @property
    def current(self) -> Path:
        """A link to the release that runs."""
        return self.root / "opt/nightjar/current"

    @property
    def program(self) -> Path:
        """This very program. Not in a release, for it must work when none does."""
        return self.root / "opt/nightjar/nightjar-device.pyz"

    @property
    def commands(self) -> Path:
        """Where people's shells find commands."""
        return self.root / "usr/local/bin"

    @property
    def units(self) -> Path:
        """Units of systemd."""
        return self.root / "etc/systemd/system"

    @property
    def configuration(self) -> Path:
        """The agent's settings."""
        return self.root / "etc/nightjar/agent.toml"

    @property
    def key(self) -> Path:
        """Who may sign bundles for this device."""
        return self.root / "etc/nightjar/bundle.pub"

    @property
    def kept(self) -> Path:
        """What this program remembers."""
        return self.root / "var/lib/nightjar"

    @property
    def record(self) -> Path:
        """The state of the releases."""
        return self.kept / "releases.json"

    @property
    def card(self) -> Path:
        """The boot partition, which a person can read with any computer."""
        return self.root / "boot/firmware"

    @property
    def parcel(self) -> Path:
        """What ``customise`` put on the boot partition."""
        return self.card / "nightjar"

    @property
    def claim_on_card(self) -> Path:
        """What the device may enrol with, once, as the card brought it: FAT knows no owners."""
        return self.parcel / "claim.json"

    @property
    def claim(self) -> Path:
        """The same, taken off the card, where root alone can read it."""
        return self.kept / "claim.json"

    @property
    def status(self) -> Path:
        """What a person reads who pulls the card out of a silent device."""
        return self.card / "nightjar-status.txt"
