"""Checks a card that was customised: what its boot partition holds, and that the rest is still the image.

The card is planned again from the fleet's folder, with the identity that is on the card, and each file is compared. A
difference is described by what it means; keys, claims and phrases are never shown.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nightjar.firmware_scripts.core import cloud_init, firstrun
from nightjar.firmware_scripts.core.bmap import Bmap
from nightjar.firmware_scripts.core.image_format import TELLING, ImageFormat, detect
from nightjar.firmware_scripts.core.plan import Survey
from nightjar.firmware_scripts.core.printable import printable
from nightjar.firmware_scripts.customising import BUNDLE, CLAIM, FOLDER, SETTINGS, Customisation, Order, wanted_files
from nightjar.firmware_scripts.ports import BlockFile, OpenImage, ProgressReport, WorkPhase
from nightjar.firmware_scripts.shell.fat import Fat, boot_partition, fat_at
from nightjar.firmware_scripts.surveying import chunks_again
from nightjar.firmware_scripts.verifying import VerifyFailed, os_error_text
from nightjar.wire.errors import ConfigError, NightjarError

STATUS = "nightjar-status.txt"
"""What a device writes to its boot partition from its first start on."""
_OURS = "nightjar-"  # begins the instance-id of a card that was customised
_HOST = re.compile(r"^host=(\S+)$", re.MULTILINE)
_SHOWN = {
    "host name": _HOST,
    "user": re.compile(r"^user=(\S+)$", re.MULTILINE),
    "Wi-Fi": re.compile(r"^ssid=(.*)$", re.M),
}


@dataclass(frozen=True, slots=True)
class _Held:
    """What a boot partition says of how it was customised."""

    names: tuple[str, ...]
    texts: Mapping[str, str]

    @property
    def meta_data(self) -> dict[str, Any]:
        """The card's ``meta-data``; empty if it is the image's own."""
        held = _json_object(self.texts.get(cloud_init.META_DATA, ""))
        return held if str(held.get("instance-id")).startswith(_OURS) else {}


def customised_for(path: Path, offset: int | None) -> str | None:
    """The host name that a card was customised for, if byte ``offset`` is in its boot partition or not known.

    Empty if the card is customised and does not say for whom; None if it is not, or cannot be read.
    """
    try:
        with boot_partition(path) as fat:
            held = _held(fat)
            if offset is not None and offset not in fat.span:
                return None
    except NightjarError:
        return None
    if held.meta_data:
        return printable(str(held.meta_data.get("local-hostname", "")))
    script = held.texts.get(firstrun.SCRIPT, "")
    if found := _HOST.search(script):
        return printable(found[1])
    return "" if STATUS in held.names or f"{FOLDER}/{SETTINGS}" in held.texts else None


def card_faults(order: Order, fat: Fat) -> list[str]:
    """What on a boot partition is not as the order says; empty if all of it is.

    Raises:
        UnavailableError: the partition cannot be read.
    """
    held = _held(fat)
    if STATUS in held.names:
        return [
            f"a device has been started with this card ({STATUS} is on it), which uses up and changes what was "
            "written: only a card that was not started yet can be verified"
        ]
    try:
        detected = detect(held.names, held.texts)
        if detected.format is ImageFormat.CLOUD_INIT:
            if not held.meta_data:
                return ["the card was not customised: its meta-data is the image's own"]
            order = replace(order, instance_id=str(held.meta_data["instance-id"]))
        elif firstrun.SCRIPT not in held.names:
            return [f"the card was not customised: there is no {firstrun.SCRIPT} on it"]
        custom = wanted_files(order, fat, lambda _: "")
    except ConfigError as error:
        return [str(error)]
    return list(_file_faults(custom, fat))


def own_files(order: Order, fat: Fat) -> frozenset[str]:
    """The names of the files on a customised boot partition that are not the image's.

    Raises:
        ConfigError: the image does not support the order.
        UnavailableError: the partition cannot be read.
    """
    custom = wanted_files(order, fat, lambda _: "")
    return frozenset({*custom.files, *custom.removed})


def rest_faults(
    surveyed: Survey, open_image: OpenImage, own: frozenset[str], fat: Fat, card: BlockFile,
    report: ProgressReport,
) -> Iterator[str]:  # fmt: skip
    """What differs from the image besides the files ``own``: bytes outside the boot partition, files in it.

    Raises:
        OSError, ImageChanged: the image or the card cannot be read.
    """
    card.drop_cache()
    with tempfile.TemporaryDirectory(prefix="nightjar-") as folder:
        boot = Path(folder) / "boot"
        with boot.open("wb") as file:
            for chunk, data in chunks_again(surveyed, open_image):
                end = chunk.offset + chunk.length_bytes
                if failed := _first_difference(card, chunk.offset, data, fat.span):
                    yield f"byte {failed.offset} {failed.text}"
                    return
                start, stop = max(chunk.offset, fat.span.start), min(end, fat.span.stop)
                if start < stop and any(data[start - chunk.offset : stop - chunk.offset]):
                    file.seek(start)
                    file.write(data[start - chunk.offset : stop - chunk.offset])
                report(WorkPhase.VERIFY, end, surveyed.image_bytes)
            file.truncate(max(file.tell(), fat.span.stop))
        with fat_at(boot, fat.span) as original:
            image_files, card_files = original.hashes(), fat.hashes()
    for name in sorted((image_files.keys() | card_files.keys()) - own):
        shown = printable(name)
        if name not in card_files:
            yield f"{shown} of the image is missing on the boot partition"
        elif name not in image_files:
            yield f"{shown} is on the boot partition, and neither of the image nor of the fleet"
        elif image_files[name] != card_files[name]:
            yield f"{shown} on the boot partition is not the image's: the card is bad, or it was changed since"


def outside(bmap: Bmap, span: range) -> Bmap:
    """The ranges of a block map that a customisation does not touch."""
    kept = (part for part in bmap.ranges if part.offset + part.length_bytes <= span.start or part.offset >= span.stop)
    return replace(bmap, ranges=tuple(kept))


def _first_difference(card: BlockFile, offset: int, data: bytes, passed: range) -> VerifyFailed | None:
    """The first byte outside ``passed`` that differs from the card's."""
    end = offset + len(data)
    for start, stop in ((offset, min(end, passed.start)), (max(offset, passed.stop), end)):
        at = start
        while at < stop:
            try:
                got = card.read_at(at, stop - at)
            except OSError as error:
                return VerifyFailed(at, f"cannot be read back: {os_error_text(error)}")
            if not got:
                return VerifyFailed(at, "cannot be read back: the card ends here")
            wanted = data[at - offset : at - offset + len(got)]
            if got != wanted:
                return VerifyFailed(
                    at + next(i for i, (a, b) in enumerate(zip(wanted, got, strict=False)) if a != b),
                    "reads back differently than it should be: the card or reader is bad, or it was changed since",
                )
            at += len(got)
    return None


# ---- the boot partition ----------------------------------------------------------------------------------------------


def _held(fat: Fat) -> _Held:
    read = {*TELLING, cloud_init.META_DATA, firstrun.SCRIPT, f"{FOLDER}/{SETTINGS}"}
    texts = {name: data.decode(errors="replace") for name in read if (data := fat.read(name)) is not None}
    return _Held(fat.names(), texts)


def _file_faults(custom: Customisation, fat: Fat) -> Iterator[str]:
    for name, data in custom.files.items():
        wanted = data if isinstance(data, bytes) else data.read_bytes()
        actual = fat.read(name)
        if actual is None:
            yield f"{name} is missing{_about(name)}"
        elif actual != wanted:
            yield from _differences(name, wanted.decode(errors="replace"), actual.decode(errors="replace"))
    for name in custom.removed:
        yield f"{name} is on it, and should not be"


def _differences(name: str, wanted: str, actual: str) -> list[str]:
    """What the difference of two texts means, without their secrets."""
    match name:
        case cloud_init.USER_DATA:
            found = list(_user_data_differences(_cloud_config(wanted), _cloud_config(actual)))
        case cloud_init.NETWORK_CONFIG:
            found = list(_network_differences(_json_object(wanted), _json_object(actual)))
        case firstrun.SCRIPT:
            found = [
                _instead(what, _first(pattern, wanted), _first(pattern, actual))
                for what, pattern in _SHOWN.items()
                if _first(pattern, wanted) != _first(pattern, actual)
            ]
        case _:
            found = []
    return found or [f"{name} is not what the fleet's folder says{_about(name)}"]


def _about(name: str) -> str:
    what = {
        f"{FOLDER}/{CLAIM}": "the claim of another host, or an older one",
        f"{FOLDER}/{BUNDLE}": "the agent, of another version or damaged",
        f"{FOLDER}/{SETTINGS}": "the agent's settings",
        cloud_init.USER_DATA: "host name, user and SSH keys",
        cloud_init.NETWORK_CONFIG: "the Wi-Fi",
        firstrun.SCRIPT: "SSH keys, password or the Wi-Fi's key",
        "cmdline.txt": "the kernel's command line",
    }.get(name)
    return f" ({what})" if what else ""


def _user_data_differences(wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[str]:
    if wanted.get("hostname") != actual.get("hostname"):
        yield _instead("host name", wanted.get("hostname"), actual.get("hostname"))
    ours, theirs = _first_user(wanted), _first_user(actual)
    if ours.get("name") != theirs.get("name"):
        yield _instead("user", ours.get("name"), theirs.get("name"))
    elif ours.get("ssh_authorized_keys") != theirs.get("ssh_authorized_keys"):
        yield f"the SSH keys of {printable(str(ours.get('name')))} are others than the fleet's"
    elif wanted.get("users") != actual.get("users"):
        yield f"the password or the rights of {printable(str(ours.get('name')))} are others than the fleet's"


def _network_differences(wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[str]:
    ours, theirs = _access_points(wanted), _access_points(actual)
    if ours.keys() != theirs.keys():
        yield _instead("Wi-Fi", ", ".join(ours) or None, ", ".join(theirs) or None)
    elif ours != theirs:
        yield "the phrase of the Wi-Fi is another than the fleet's"


def _instead(what: str, wanted: object, actual: object) -> str:
    shown = [f"'{printable(str(each), 64)}'" if each else "none" for each in (actual, wanted)]
    return f"its {what} is {shown[0]}, the fleet's folder says {shown[1]}"


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _first_user(data: Mapping[str, Any]) -> dict[str, Any]:
    users = data.get("users")
    return users[0] if isinstance(users, list) and users and isinstance(users[0], dict) else {}


def _access_points(data: Mapping[str, Any]) -> dict[str, Any]:
    try:
        points = data["network"]["wifis"]["wlan0"]["access-points"]
    except (KeyError, TypeError):
        return {}
    return points if isinstance(points, dict) else {}


def _cloud_config(text: str) -> dict[str, Any]:
    return _json_object(text.partition("\n")[2])


def _json_object(text: str) -> dict[str, Any]:
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}
