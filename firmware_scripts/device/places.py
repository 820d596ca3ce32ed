"""The paths of everything on a device, below a root that is ``/`` on a real device."""

from __future__ import annotations

from pathlib import Path


class Places:
    """The paths on a device; ``root`` is another folder while an image is built, and in tests."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self.releases = root / "opt/nightjar/releases"  # a folder for each
        self.current = root / "opt/nightjar/current"  # the link to the running release
        # This program lies outside the releases because it must work when none of them does.
        self.program = root / "opt/nightjar/nightjar-device.pyz"
        self.commands = root / "usr/local/bin"  # where shells find them
        self.units = root / "etc/systemd/system"
        self.configuration = root / "etc/nightjar/agent.toml"
        self.key = root / "etc/nightjar/bundle.pub"  # bundles for this device must be signed with it
        self.kept = root / "var/lib/nightjar"  # this program's own state
        self.record = self.kept / "releases.json"
        self.claim = self.kept / "claim.json"  # for root only, after it was moved off the card
        # The agent leaves here what it fetched; it owns the folder, so nothing in it is trusted.
        self.handed_over = root / "var/lib/nightjar-agent/release"
        self.incoming = self.kept / "incoming.tar"  # a bundle taken over from the agent
        self.not_taken = self.kept / "not-taken"  # why the last one is not used; the agent reads it
        self.card = root / "boot/firmware"  # the boot partition, which a person can read with any computer
        self.status = self.card / "nightjar-status.txt"  # for a person who pulls the card out of a silent device
        self.parcel = self.card / "nightjar"  # what 'customise' put there
        # The claim as delivered, which the device may enrol with once. FAT cannot protect it by owner.
        self.claim_on_card = self.parcel / "claim.json"
