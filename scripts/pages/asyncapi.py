"""Makes docs/asyncapi.json: what the coordinator says and hears over MQTT, as an AsyncAPI 3.0 document, from the code.

The payloads' fields stand in docs/control-messages.schema.json, to which it refers.
"""

import inspect
import json
from pathlib import Path

from nightjar.wire import frame, messages, topics
from nightjar.wire.identifiers import DeviceId, Population

PAGE = Path(__file__).parents[2] / "docs" / "asyncapi.json"
POPULATION, DEVICE = Population("POPULATION"), DeviceId("DEVICE")
REPORT = "report"
SCHEMA = "./control-messages.schema.json#/$defs/"
RETAINED = frozenset({"announce", "status"})
BINARY = {
    REPORT: "Device to coordinator: an update, or a chunk of one, as a frame (docs/wire-format.md).",
    topics.SUM_QUESTION: "Coordinator to device: a message of a secure sum, as msgpack (docs/wire-format.md).",
    topics.SUM_ANSWER: "Device to coordinator: a message of a secure sum, as msgpack (docs/wire-format.md).",
}
ORDER = (
    "announce", "status", "check-in", "assignment", "rejection", REPORT, "query", "missing", "dropout", "receipt",
    topics.SUM_QUESTION, topics.SUM_ANSWER,
)  # fmt: skip
"""As a round goes."""


def address(kind: str) -> str:
    """A topic with its parameters in braces."""
    if kind in topics.UP_KINDS:
        topic = topics.up(POPULATION, DEVICE, kind, 1).replace("/0/", "/{shard}/")
    elif kind in topics.DOWN_KINDS:
        topic = topics.down(POPULATION, DEVICE, kind)
    else:
        topic = {"announce": topics.announce(POPULATION), "status": topics.status(POPULATION, DEVICE)}[kind]
    return topic.replace(POPULATION, "{population}").replace(DEVICE, "{device}")


def heard(kind: str) -> bool:
    """Whether the coordinator receives it."""
    return kind in topics.UP_KINDS or kind == "status"


def channel(kind: str) -> dict[str, object]:
    """A topic, with the one message that goes over it."""
    topic = address(kind)
    names = [name for name in ("population", "shard", "device") if f"{{{name}}}" in topic]
    return {
        "address": topic,
        "messages": {kind: {"$ref": f"#/components/messages/{kind}"}},
        "parameters": {name: {"$ref": f"#/components/parameters/{name}"} for name in names},
    }


def operation(kind: str) -> dict[str, object]:
    """What the coordinator does with it."""
    return {
        "action": "receive" if heard(kind) else "send",
        "channel": {"$ref": f"#/channels/{kind}"},
        "messages": [{"$ref": f"#/channels/{kind}/messages/{kind}"}],
        "bindings": {"mqtt": {"qos": 1, "retain": kind in RETAINED, "bindingVersion": "0.2.0"}},
    }


def message(kind: str) -> dict[str, object]:
    """Its payload."""
    if kind in BINARY:
        return {
            "name": kind,
            "summary": BINARY[kind],
            "contentType": "application/octet-stream",
            "payload": {"type": "string", "format": "binary", "maxLength": frame.MAX_PUBLISH_BYTES},
        }
    message_type = messages.TYPES[kind]
    said: dict[str, object] = {"$ref": f"{SCHEMA}{message_type.__name__}"}
    return {
        "name": kind,
        "summary": " ".join(inspect.cleandoc(message_type.__doc__ or "").split("\n\n")[0].split()),
        "contentType": "application/json",
        "payload": _sealed(said) if kind in messages.SIGNED else said,
    }


def _sealed(said: dict[str, object]) -> dict[str, object]:
    """A message that travels as text, with a signature beside it."""
    text = {"signed": {"contentMediaType": "application/json", "contentSchema": said}}
    return {"allOf": [{"$ref": f"{SCHEMA}Sealed"}, {"properties": text}]}


def page() -> str:
    """The page."""
    page = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Nightjar's coordinator over MQTT",
            "version": topics.ROOT.rsplit("/", 1)[1],
            "description": (
                "What devices and the coordinator say to each other. A PUBACK is not a receipt: a device sends its "
                "report until a receipt comes. Artifacts go over HTTP (/docs/openapi.json on the coordinator). Made by "
                "scripts/pages."
            ),
        },
        "defaultContentType": "application/json",
        "servers": {
            "broker": {
                "host": "localhost:1883",
                "protocol": "mqtt",
                "protocolVersion": "3.1.1",
                "description": "Any broker with durable sessions and retained messages (docs/brokers.md).",
            },
            "secure-broker": {
                "host": "localhost:8883",
                "protocol": "secure-mqtt",
                "protocolVersion": "3.1.1",
                "description": "The same over TLS.",
            },
        },
        "channels": {kind: channel(kind) for kind in ORDER},
        "operations": {kind: operation(kind) for kind in ORDER},
        "components": {
            "messages": {kind: message(kind) for kind in ORDER},
            "parameters": {
                "population": {"description": "The devices that serve one coordinator."},
                "shard": {"description": "crc32(device) mod the number of shards in the announcement; at first 0."},
                "device": {"description": "Its id: letters, digits, '_', '.', '-'; at most 64."},
            },
        },
    }
    return json.dumps(page, indent=1, ensure_ascii=False) + "\n"
