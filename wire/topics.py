"""MQTT topics: the only place that builds and parses them.

::

    nightjar/1/<population>/up/<shard>/<device>/<kind>   device -> coordinator
    nightjar/1/<population>/down/<device>/<kind>         coordinator -> device
    nightjar/1/<population>/announce                     retained: the current manifest
    nightjar/1/<population>/status/<device>              retained, and the last will
"""

from __future__ import annotations

import msgspec

from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.identifiers import DeviceId, Population, device_id, population, shard_of

ROOT = "nightjar/1"
SUM_ANSWER, SUM_QUESTION = "sum-answer", "sum-question"
"""Kinds of the messages of :mod:`nightjar.wire.secure_sum.messages`; only a masked update is sent in a report."""

UP_KINDS = frozenset({"check-in", "report", "dropout", "query", SUM_ANSWER})
DOWN_KINDS = frozenset({"assignment", "rejection", "receipt", "missing", SUM_QUESTION})


class UpTopic(msgspec.Struct, frozen=True):
    """Topic of a message from a device."""

    population: Population
    shard: int
    device: DeviceId
    kind: str


class DownTopic(msgspec.Struct, frozen=True):
    """Topic of a message to a device."""

    population: Population
    device: DeviceId
    kind: str


class StatusTopic(msgspec.Struct, frozen=True):
    """Topic of a device's status."""

    population: Population
    device: DeviceId


class AnnounceTopic(msgspec.Struct, frozen=True):
    """Topic of the announcement of the current manifest."""

    population: Population


Topic = UpTopic | DownTopic | StatusTopic | AnnounceTopic


def up(where: Population, device: DeviceId, kind: str, shards: int) -> str:
    """Topic for a message from a device.

    >>> up(Population("demo"), DeviceId("phone-01"), "check-in", 4)
    'nightjar/1/demo/up/3/phone-01/check-in'
    """
    return f"{ROOT}/{where}/up/{shard_of(device, shards)}/{device}/{kind}"


def down(where: Population, device: DeviceId, kind: str) -> str:
    """Topic for a message to a device."""
    return f"{ROOT}/{where}/down/{device}/{kind}"


def announce(where: Population) -> str:
    """Topic of the retained announcement."""
    return f"{ROOT}/{where}/announce"


def status(where: Population, device: DeviceId) -> str:
    """Topic of a device's retained status."""
    return f"{ROOT}/{where}/status/{device}"


def device_filters(where: Population, device: DeviceId) -> list[str]:
    """The topic filters that an agent subscribes to."""
    return [f"{ROOT}/{where}/down/{device}/+", announce(where)]


def shard_filter(where: Population, shard: int) -> str:
    """The topic filter of an ingest shard: all messages from its devices."""
    return f"{ROOT}/{where}/up/{shard}/+/+"


def status_filter(where: Population) -> str:
    """The topic filter for every device's status."""
    return f"{ROOT}/{where}/status/+"


def parse(topic: str) -> Topic:
    """Parse a topic from the network.

    >>> parse("nightjar/1/demo/down/phone-01/receipt")
    DownTopic(population='demo', device='phone-01', kind='receipt')

    Raises:
        RemoteProtocolError: the topic is not part of this protocol, or has an unknown kind or an invalid name.
    """
    match topic.split("/"):
        case ["nightjar", "1", where, "up", shard, device, kind] if kind in UP_KINDS and _is_shard(shard):
            return UpTopic(population(where), int(shard), device_id(device), kind)
        case ["nightjar", "1", where, "down", device, kind] if kind in DOWN_KINDS:
            return DownTopic(population(where), device_id(device), kind)
        case ["nightjar", "1", where, "status", device]:
            return StatusTopic(population(where), device_id(device))
        case ["nightjar", "1", where, "announce"]:
            return AnnounceTopic(population(where))
        case _:
            pass
    msg = f"not a topic of this protocol: {topic[:200]!r}"
    raise RemoteProtocolError(msg, code="topic")


def _is_shard(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5
