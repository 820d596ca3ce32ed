"""Identifiers in messages, and the characters that they may contain.

Device and population names appear in MQTT topics and file names, so they are restricted to characters without a special
meaning there: no leading dot, and no ``/``, ``+``, ``#`` or control character.
"""

from __future__ import annotations

import re
import zlib
from typing import NewType

from nightjar.wire.errors import RemoteProtocolError

DeviceId = NewType("DeviceId", str)
Population = NewType("Population", str)
Sha256 = NewType("Sha256", str)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def device_id(text: str) -> DeviceId:
    """Check a device name.

    >>> device_id("pi-4b.kitchen")
    'pi-4b.kitchen'

    Raises:
        RemoteProtocolError: the name is not 1 to 64 letters, digits, ``_ . -``, beginning with a letter or digit.
    """
    return DeviceId(_checked(text, "device"))


def population(text: str) -> Population:
    """Check a population name by the rule of :func:`device_id`."""
    return Population(_checked(text, "population"))


def sha256(text: str) -> Sha256:
    """Check a sha256 in lower-case hex.

    Raises:
        RemoteProtocolError: the text is not 64 lower-case hex digits.
    """
    if not _SHA256.fullmatch(text):
        msg = f"expected a sha256 as 64 lower-case hex digits, got {text[:80]!r}"
        raise RemoteProtocolError(msg, code="identifier")
    return Sha256(text)


def shard_of(device: DeviceId, shards: int) -> int:
    """The ingest shard of a device: ``crc32(device) mod shards``.

    >>> shard_of(DeviceId("phone-01"), 4)
    3
    """
    return zlib.crc32(device.encode()) % shards


def _checked(text: str, what: str) -> str:
    if not _NAME.fullmatch(text):
        msg = (
            f"a {what} name is 1 to 64 letters, digits, '_', '.', '-' and begins with a letter or digit, "
            f"got {text[:80]!r}"
        )
        raise RemoteProtocolError(msg, code="identifier")
    return text
