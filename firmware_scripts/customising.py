"""Customises an image, or a freshly written card, for one host: plans, checks, writes, reads back and reports.

The file that triggers the first-boot setup is written last, so an interrupted card boots as it did before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nightjar.firmware_scripts.core import cloud_init, firstrun
from nightjar.firmware_scripts.core.agent_settings import agent_settings, check_claim, local_only
from nightjar.firmware_scripts.core.host_settings import HostSettings, check_settings
from nightjar.firmware_scripts.core.image_format import TELLING, Detected, ImageFormat, detect
from nightjar.firmware_scripts.core.printable import time_text
from nightjar.firmware_scripts.shell.fat import Fat, boot_partition
from nightjar.host.sizes import size_text
from nightjar.wire.errors import ConfigError, IntegrityError, UnavailableError

FOLDER = "nightjar"
BUNDLE, KEY, SETTINGS, CLAIM = "bundle.tar", "bundle.pub", "agent.toml", "claim.json"
_FROM_BUNDLE = ("install.sh", "nightjar-device.pyz")
_SPARE_BYTES = 2_000_000  # for status, log and FAT's own structures
_INSTALL = ("sh", f"/boot/firmware/{FOLDER}/install.sh")
_SSH_ON = ("systemctl", "enable", "--now", "ssh")

# Checks user-data with cloud-init's own program: returns why it would be refused, empty if it would not, and None if
# cloud-init is not installed.
SchemaCheck = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class BundleFiles:
    """A bundle whose signature was checked, with its key and manifest."""

    path: Path
    public_key: bytes  # the key that its signature was checked with, as PEM
    own: Mapping[str, bytes]  # the files in the archive's folder ``device/``, by name
    facts: Mapping[str, object]

    def own_files(self) -> dict[str, bytes]:
        """The files that a device needs before the bundle is unpacked: the installer and its program."""
        return {name: self.own[name] for name in _FROM_BUNDLE if name in self.own}


@dataclass(frozen=True, slots=True)
class Order:
    """The customisation requested for one card."""

    settings: HostSettings
    parcel: BundleFiles | None  # the agent's bundle; None sets up only the host
    agent_toml: str | None  # the settings shared by the fleet; None if the claim supplies everything
    claim: bytes | None
    instance_id: str  # cloud-init's instance-id, new for each card
    claim_until_s: float | None = None  # until when the claim can be used; None if that is not known


@dataclass(frozen=True, slots=True)
class Customisation:
    """The files to be written, in order, and their effect."""

    detected: Detected
    files: Mapping[str, bytes | Path]  # contents by path on the boot partition; a ``Path`` is copied from there
    removed: tuple[str, ...]  # files that would conflict with the new ones
    words: tuple[str, ...]  # what will happen at the first boot, one sentence per line
    warnings: tuple[str, ...]  # what looks wrong but does not prevent writing


def check_order(order: Order) -> None:
    """Check everything about an order that can be known before a card is touched.

    Raises:
        ConfigError: the order cannot be carried out on any image.
    """
    check_settings(order.settings)
    if order.claim is not None:
        check_claim(order.claim)
    if order.parcel is None:
        if order.claim is not None or order.agent_toml is not None:
            msg = "a claim and the agent's settings are of no use without the agent: give --bundle"
            raise ConfigError(msg)
        return
    missing = [name for name in _FROM_BUNDLE if name not in order.parcel.own]
    if missing:
        msg = f"the bundle has no {' and no '.join(missing)}: make it again with this nightjar-firmware"
        raise ConfigError(msg)
    agent_settings(order.agent_toml, order.settings.hostname, has_claim=order.claim is not None)


def plan(order: Order, fat: Fat, check_schema: SchemaCheck) -> Customisation:
    """Decide what is to be written to a boot partition, and check that there is room for it. Writes nothing.

    Raises:
        ConfigError: the image does not support the order, or its format cannot be detected.
        UnavailableError: the partition cannot be read, or has too little room.
    """
    custom = wanted_files(order, fat, check_schema)
    _check_room(fat, custom.files, fat.names())
    return custom


def wanted_files(order: Order, fat: Fat, check_schema: SchemaCheck) -> Customisation:
    """The files that a boot partition must hold. On a card that holds them already, it finds the same again.

    Raises:
        ConfigError: the image does not support the order, or its format cannot be detected.
        UnavailableError: the partition cannot be read.
    """
    check_order(order)
    texts = {name: data.decode(errors="replace") for name in TELLING if (data := fat.read(name)) is not None}
    names = fat.names()
    detected = detect(names, texts)
    _check_platform(order, detected)
    files = _parcel_files(order)
    removed: tuple[str, ...] = ()
    warnings = list(_warnings(order, texts))
    match detected.format:
        case ImageFormat.CLOUD_INIT:
            network = (fat.read(cloud_init.NETWORK_CONFIG) or b"").decode(errors="replace")
            made = _cloud_init_files(order, texts.get("cmdline.txt"), network)
            cloud_init.check_structure(made)
            refused = check_schema(made[cloud_init.USER_DATA])
            if refused is None:
                warnings.append(
                    "cloud-init is not installed here, so its own check was left out (apt install cloud-init)"
                )
            elif refused:
                msg = f"cloud-init would refuse what was to be written: {refused}"
                raise ConfigError(msg)
            removed = (firstrun.SCRIPT,) if firstrun.SCRIPT in names else ()
        case ImageFormat.FIRSTRUN:
            script = firstrun.firstrun_script(order.settings, install=order.parcel is not None)
            line = firstrun.command_line(texts["cmdline.txt"], _country(order))
            made = {firstrun.SCRIPT: script, "cmdline.txt": line + "\n"}
        case ImageFormat.NIGHTJAR:
            made = {firstrun.SCRIPT: firstrun.firstrun_script(order.settings, install=order.parcel is not None)}
    everything = {**files, **{name: text.encode() for name, text in made.items()}}
    return Customisation(detected, everything, removed, _words(order, detected), tuple(warnings))


def carry_out(custom: Customisation, fat: Fat) -> None:
    """Write the files, flush them and read every byte back.

    Raises:
        UnavailableError: a file cannot be written or removed; the card boots as before unless the last file was begun.
        IntegrityError: a file reads back differently from what was written.
    """
    for name in custom.removed:
        fat.remove(name)
    for name, data in custom.files.items():
        fat.write(name, data)
    fat.flush()
    for name, data in custom.files.items():
        actual = fat.read(name)
        wanted = data if isinstance(data, bytes) else data.read_bytes()
        if actual is None or hashlib.sha256(actual).digest() != hashlib.sha256(wanted).digest():
            msg = f"{name} reads back other than it was written: the card or the reader is bad"
            raise IntegrityError(msg)
    remaining = [name for name in custom.removed if fat.read(name) is not None]
    if remaining:
        msg = f"{', '.join(remaining)} could not be removed"
        raise UnavailableError(msg)


def customise(path: Path, order: Order, check_schema: SchemaCheck) -> Customisation:
    """Plan and carry out the customisation of an image or a card that the caller may write to.

    Raises:
        NightjarError: there is no boot partition, or :func:`plan` or :func:`carry_out` failed.
    """
    with boot_partition(path) as fat:
        custom = plan(order, fat, check_schema)
        carry_out(custom, fat)
    return custom


def _check_platform(order: Order, detected: Detected) -> None:
    """Refuse a bundle for another platform: the device could not install it and would never contact the coordinator."""
    made_for = None if order.parcel is None else order.parcel.facts.get("platform")
    if made_for is not None and detected.platform is not None and made_for != detected.platform:
        msg = f"the bundle is for {made_for}, the image is {detected.platform}: make one for that (docs/bundles.md)"
        raise ConfigError(msg)


def _parcel_files(order: Order) -> dict[str, bytes | Path]:
    parcel = order.parcel
    if parcel is None:
        return {}
    settings = agent_settings(order.agent_toml, order.settings.hostname, has_claim=order.claim is not None)
    files: dict[str, bytes | Path] = {f"{FOLDER}/{BUNDLE}": parcel.path, f"{FOLDER}/{KEY}": parcel.public_key}
    files |= {f"{FOLDER}/{name}": data for name, data in parcel.own_files().items()}
    files[f"{FOLDER}/{SETTINGS}"] = settings.encode()
    if order.claim is not None:
        files[f"{FOLDER}/{CLAIM}"] = order.claim
    return files


def _cloud_init_files(order: Order, line: str | None, earlier_network: str) -> dict[str, str]:
    settings = order.settings
    commands: list[tuple[str, ...]] = [_SSH_ON] if settings.ssh_keys else []
    commands += [_INSTALL] if order.parcel is not None else []
    made: dict[str, str] = {}
    if line is not None:
        made["cmdline.txt"] = cloud_init.command_line(line, order.instance_id, _country(order)) + "\n"
    network = cloud_init.network_config(settings, earlier_network)
    if network is not None:
        made[cloud_init.NETWORK_CONFIG] = network
    made[cloud_init.USER_DATA] = cloud_init.user_data(settings, tuple(commands))
    # Written last: the new instance-id is what makes cloud-init treat the card as a new device.
    made[cloud_init.META_DATA] = cloud_init.meta_data(settings.hostname, order.instance_id)
    return made


def size_of(data: bytes | Path) -> int:
    """The bytes that a file of a customisation takes."""
    return len(data) if isinstance(data, bytes) else data.stat().st_size


def _check_room(fat: Fat, files: Mapping[str, bytes | Path], names: Sequence[str]) -> None:
    needed = sum(map(size_of, files.values()))
    free = fat.free_bytes()
    if FOLDER in names:
        free += sum(len(fat.read(name) or b"") for name in files if name.startswith(f"{FOLDER}/"))
    if needed + _SPARE_BYTES > free:
        msg = f"the boot partition has room for {size_text(free)}, {size_text(needed + _SPARE_BYTES)} are needed"
        raise UnavailableError(msg)


def _country(order: Order) -> str | None:
    return None if order.settings.wifi is None else order.settings.wifi.country


def _warnings(order: Order, texts: Mapping[str, str]) -> Sequence[str]:
    warnings = []
    if order.parcel is not None and order.agent_toml is not None and order.claim is None:
        names = local_only(order.agent_toml)
        warnings += [
            f"{name} in the agent's settings names the device itself: it will find nobody there" for name in names
        ]
    before = [line for line in texts.get("user-data", "").splitlines() if line.strip() and not line.startswith("#")]
    if before:
        warnings.append("the image was customised before; user-data is replaced, not merged")
    if order.settings.user is None:
        warnings.append("no user: nobody can log in, unless the image brings a user of its own")
    return warnings


def _words(order: Order, detected: Detected) -> tuple[str, ...]:
    settings = order.settings
    how = {
        ImageFormat.CLOUD_INIT: f"cloud-init takes it for a new device ({order.instance_id}) and reads user-data",
        ImageFormat.FIRSTRUN: "it runs firstrun.sh before everything else, and then starts anew",
        ImageFormat.NIGHTJAR: "it runs firstrun.sh before it brings the network up",
    }[detected.format]
    words = [how, f"it is called {settings.hostname}"]
    if settings.user is not None:
        ways = [f"{len(settings.ssh_keys)} SSH key(s)"] if settings.ssh_keys else []
        ways += ["a password"] if settings.password_hash else []
        words.append(
            f"{settings.user} can log in with {' and '.join(ways)}, and nobody with a password that others know"
        )
    if settings.wifi is not None:
        where = ", if it has NetworkManager" if detected.format is ImageFormat.NIGHTJAR else ""
        words.append(f"it joins the Wi-Fi {settings.wifi.ssid!r} by the rules of {settings.wifi.country}{where}")
    else:
        words.append("it uses a cable, or whatever network the image brings")
    if order.parcel is None:
        return (*words, "no agent is installed")
    facts = order.parcel.facts
    words.append(f"agent {facts.get('agent')} is installed from the card, with no network, for {facts.get('platform')}")
    if order.claim is not None:
        until = "" if order.claim_until_s is None else f", until {time_text(order.claim_until_s)}"
        words.append(f"it enrols with the claim on the card, once{until}, and then wipes it")
    else:
        words.append("it takes coordinator and broker from agent.toml; nothing is enrolled")
    return (
        *words,
        "what it does is written to nightjar-status.txt on the boot partition: pull the card if it is silent",
    )
