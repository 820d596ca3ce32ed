"""How the system on a card takes its settings, told by the card's own files, and never guessed.

Settings in a form that an image does not know are ignored without a word: the device comes up with no user and no
network. So an image that does not say which form it takes is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from wire.errors import ConfigError

TELLING = ("issue.txt", "cmdline.txt", "nightjar/image.json", "user-data")
"""The files whose text is asked for."""
_CLOUD_INIT_FILES = ("user-data", "meta-data")
_OWN_MARK = "nightjar/image.json"
_OWN_FORMAT = "nightjar-1"
# pi-gen writes it: "Raspberry Pi reference 2023-12-05".
_ISSUE = re.compile(r"Raspberry Pi reference (\d{4}-\d{2}-\d{2})")
_BOOKWORM, _TRIXIE = "2023-10-10", "2025-10-01"


class ImageFormat(StrEnum):
    """Ways in which a system takes its settings at its first start."""

    CLOUD_INIT = "cloud-init"
    """Raspberry Pi OS trixie and later: user-data, meta-data, network-config."""
    FIRSTRUN = "firstrun"
    """Raspberry Pi OS bookworm: a script that the kernel's command line names."""
    NIGHTJAR = "nightjar"
    """An image of our own: the same script, which the image looks for by itself."""


@dataclass(frozen=True, slots=True)
class Detected:
    """A format, what told it, in words, and the kind of device that a bundle must be for; None if that is not told."""

    format: ImageFormat
    because: str
    platform: str | None = None


def detect(names: Collection[str], texts: Mapping[str, str]) -> Detected:
    """The format of the image that a boot partition belongs to.

    Args:
        names: of the files at its root.
        texts: of those of :data:`TELLING` that are there.

    Raises:
        ConfigError: it cannot be told; the message says what was looked for.

    >>> detect(["user-data", "meta-data", "cmdline.txt"], {}).format
    <ImageFormat.CLOUD_INIT: 'cloud-init'>
    """
    if _OWN_MARK in texts:
        return _own(texts[_OWN_MARK])
    there = {name.lower() for name in names}
    found = _ISSUE.search(texts.get("issue.txt", ""))
    if there.issuperset(_CLOUD_INIT_FILES):
        platform = "trixie-aarch64" if found and found[1] >= _TRIXIE else None
        return Detected(ImageFormat.CLOUD_INIT, "user-data and meta-data are on its boot partition", platform)
    if found is None or "cmdline.txt" not in there:
        msg = (
            "it cannot be told how this image takes its settings: expected user-data and meta-data (Raspberry Pi OS "
            f"trixie), issue.txt and cmdline.txt (bookworm) or {_OWN_MARK} (our own) on its boot partition, found "
            f"{', '.join(sorted(there)[:12]) or 'nothing'}"
        )
        raise ConfigError(msg)
    date = found[1]
    if date < _BOOKWORM:
        msg = f"this is Raspberry Pi OS of {date}, before bookworm, which has no Python for the agent: take a newer one"
        raise ConfigError(msg)
    if date >= _TRIXIE:
        msg = (
            f"this is Raspberry Pi OS of {date}, which takes cloud-init's files, but they were removed from it: write "
            "the card again"
        )
        raise ConfigError(msg)
    because = f"issue.txt says that it is Raspberry Pi OS of {date}, which is bookworm"
    return Detected(ImageFormat.FIRSTRUN, because, "bookworm-aarch64")


def _own(text: str) -> Detected:
    try:
        said = json.loads(text)
        name = said["format"] if isinstance(said, dict) else None
    except (ValueError, KeyError, RecursionError):
        name = None
    if name != _OWN_FORMAT:
        found = repr(str(name)[:40])
        msg = f"{_OWN_MARK} says format {found}, this program knows {_OWN_FORMAT!r}: take the program that made it"
        raise ConfigError(msg)
    machine = {"arm64": "aarch64", "amd64": "x86_64"}.get(str(said.get("architecture")))
    platform = f"{said['release']}-{machine}" if machine and isinstance(said.get("release"), str) else None
    return Detected(ImageFormat.NIGHTJAR, f"{_OWN_MARK} says {_OWN_FORMAT}", platform)
