"""Makes an image, or a card that was just written, one host's: decides, checks, writes, reads back, and says it all.

What starts everything at the first boot is written last, so a card that was cut off in between starts as it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from firmware_scripts.core import cloud_init, firstrun
from firmware_scripts.core.agent_settings import agent_settings, check_claim, local_only
from firmware_scripts.core.host_settings import HostSettings, check_settings
from firmware_scripts.core.image_format import TELLING, Detected, ImageFormat, detect
from firmware_scripts.core.printable import size_text
from firmware_scripts.shell.fat import Fat, boot_partition
from wire.errors import ConfigError, IntegrityError, UnavailableError

FOLDER = "nightjar"
BUNDLE, KEY, SETTINGS, CLAIM = "bundle.tar", "bundle.pub", "agent.toml", "claim.json"
_FROM_BUNDLE = ("install.sh", "nightjar-device.pyz")
_SPARE_BYTES = 2_000_000  # status, log, and what FAT needs for itself
_INSTALL = ("sh", f"/boot/firmware/{FOLDER}/install.sh")
_SSH_ON = ("systemctl", "enable", "--now", "ssh")

# Asks cloud-init's own program about user-data; why it would refuse it, or an empty text. None: it is not here.
SchemaCheck = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class BundleFiles:
    """The bundle, and what belongs to it.

    Attributes:
        path: of the archive, whose signature was checked.
        public_key: that checked it, as PEM.
        own: the files in its folder ``device/`` by their names.
        facts: of its manifest.
    """

    path: Path
    public_key: bytes
    own: Mapping[str, bytes]
    facts: Mapping[str, object]

    def own_files(self) -> dict[str, bytes]:
        """What a device starts with before the bundle is unpacked: the installer and its program."""
        return {name: self.own[name] for name in _FROM_BUNDLE if name in self.own}


@dataclass(frozen=True, slots=True)
class Order:
    """What one card shall get.

    Attributes:
        settings: of the host.
        parcel: the agent; None only sets up the host.
        agent_toml: settings that the fleet shares; None if a claim says all.
        claim: the bytes of a claim file; None without.
        instance_id: new for each card.
    """

    settings: HostSettings
    parcel: BundleFiles | None
    agent_toml: str | None
    claim: bytes | None
    instance_id: str


@dataclass(frozen=True, slots=True)
class Customisation:
    """What is to be written, in this order, and what will come of it.

    Attributes:
        detected: the image's format, and what told it.
        files: by their path on the boot partition; a path is copied.
        removed: files that would speak against the new ones.
        words: what will happen at the first start, a sentence a line.
        warnings: what looks wrong, though it can be written.
    """

    detected: Detected
    files: Mapping[str, bytes | Path]
    removed: tuple[str, ...]
    words: tuple[str, ...]
    warnings: tuple[str, ...]


def check_order(order: Order) -> None:
    """Return if an order can be carried out on some image: everything that can be known before a card is touched.

    Raises:
        ConfigError: it cannot.
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
    """Decide what is to be written to a boot partition. Writes nothing.

    Raises:
        ConfigError: the image does not take what is asked for, or it is not told how it takes it.
        UnavailableError: the partition cannot be read, or has too little room.
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
            made = _cloud_init_files(order, texts.get("cmdline.txt"))
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
    _check_room(fat, everything, names)
    return Customisation(detected, everything, removed, _words(order, detected), tuple(warnings))


def carry_out(custom: Customisation, fat: Fat) -> None:
    """Write it, flush it, and read every byte back.

    Raises:
        UnavailableError: it cannot be written; the card starts as before unless the last file was reached.
        IntegrityError: what is read back differs.
    """
    for name in custom.removed:
        fat.remove(name)
    for name, data in custom.files.items():
        fat.write(name, data)
    fat.settle()
    for name, data in custom.files.items():
        found = fat.read(name)
        wanted = data if isinstance(data, bytes) else data.read_bytes()
        if found is None or hashlib.sha256(found).digest() != hashlib.sha256(wanted).digest():
            msg = f"{name} reads back other than it was written: the card or the reader is bad"
            raise IntegrityError(msg)
    left = [name for name in custom.removed if fat.read(name) is not None]
    if left:
        msg = f"{', '.join(left)} could not be removed"
        raise UnavailableError(msg)


def customise(path: Path, order: Order, check_schema: SchemaCheck) -> Customisation:
    """Plan and carry out on an image or a card that the caller may write to.

    Raises:
        NightjarError: as :func:`plan` and :func:`carry_out`, or it has no boot partition.
    """
    with boot_partition(path) as fat:
        custom = plan(order, fat, check_schema)
        carry_out(custom, fat)
    return custom


def _check_platform(order: Order, detected: Detected) -> None:
    """A device cannot install another kind's bundle: it would come up, and never show itself."""
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


def _cloud_init_files(order: Order, line: str | None) -> dict[str, str]:
    settings = order.settings
    commands: list[tuple[str, ...]] = [_SSH_ON] if settings.ssh_keys else []
    commands += [_INSTALL] if order.parcel is not None else []
    made: dict[str, str] = {}
    if line is not None:
        made["cmdline.txt"] = cloud_init.command_line(line, order.instance_id, _country(order)) + "\n"
    network = cloud_init.network_config(settings)
    if network is not None:
        made[cloud_init.NETWORK_CONFIG] = network
    made[cloud_init.USER_DATA] = cloud_init.user_data(settings, tuple(commands))
    # Last: with a new instance-id cloud-init takes the card for a new device.
    made[cloud_init.META_DATA] = cloud_init.meta_data(settings.hostname, order.instance_id)
    return made


def _check_room(fat: Fat, files: Mapping[str, bytes | Path], names: Sequence[str]) -> None:
    needed = sum(len(data) if isinstance(data, bytes) else data.stat().st_size for data in files.values())
    free = fat.free_bytes()
    if FOLDER in names:
        free += sum(len(fat.read(name) or b"") for name in files if name.startswith(f"{FOLDER}/"))
    if needed + _SPARE_BYTES > free:
        msg = f"the boot partition has room for {size_text(free)}, {size_text(needed + _SPARE_BYTES)} are needed"
        raise UnavailableError(msg)


def _country(order: Order) -> str | None:
    return None if order.settings.wifi is None else order.settings.wifi.country


def _warnings(order: Order, texts: Mapping[str, str]) -> Sequence[str]:
    found = []
    if order.parcel is not None and order.agent_toml is not None and order.claim is None:
        names = local_only(order.agent_toml)
        found += [
            f"{name} in the agent's settings names the device itself: it will find nobody there" for name in names
        ]
    before = [line for line in texts.get("user-data", "").splitlines() if line.strip() and not line.startswith("#")]
    if before:
        found.append("the image was customised before; user-data is replaced, not merged")
    if order.settings.user is None:
        found.append("no user: nobody can log in, unless the image brings a user of its own")
    return found


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
        words.append("it enrols with the claim on the card, once, and then wipes it")
    else:
        words.append("it takes coordinator and broker from agent.toml; nothing is enrolled")
    return (
        *words,
        "what it does is written to nightjar-status.txt on the boot partition: pull the card if it is silent",
    )


def order_as_json(custom: Customisation) -> dict[str, object]:
    """A customisation as JSON shows it: names, sizes and words; no contents, for there are secrets among them."""
    sizes = {name: len(data) if isinstance(data, bytes) else data.stat().st_size for name, data in custom.files.items()}
    return {
        "format": custom.detected.format.value,
        "because": custom.detected.because,
        "files": [{"path": name, "size_bytes": size} for name, size in sizes.items()],
        "removed": list(custom.removed),
        "first_start": list(custom.words),
        "warnings": list(custom.warnings),
    }
