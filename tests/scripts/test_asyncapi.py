"""docs/asyncapi.json describes every topic as the code has it (test_pages.py sees to it that it is current).

It was checked with the official JSON Schema of AsyncAPI 3.0.0, which is too large to lie here; what that would find
first is checked below.
"""

import json
from pathlib import Path

import jsonschema_rs
import pytest

from nightjar.wire import messages, topics

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = json.loads((DOCS / "asyncapi.json").read_text())
HASH = "0" * 64
EXAMPLES = [
    messages.CheckIn(agent_version="1", runtime="ai-edge-litert 2.3.0", examples=3),
    messages.Rejection(reason=messages.RejectionReason.NOT_SELECTED, retry_after_s=60.0),
    messages.Dropout(round=1, attempt=1, cause=messages.DropoutCause.IN_USE),
    messages.Query(round=1, attempt=1, chunks=2),
    messages.Missing(round=1, attempt=1, chunks=(0,)),
    messages.Receipt(round=1, attempt=1, verdict=messages.Verdict.ACCEPTED),
    messages.Announcement(version=1, manifest=HASH),
    messages.Status(online=True, state="resting"),
    messages.Assignment(
        task="keyboard",
        round=1,
        attempt=1,
        version=1,
        manifest=HASH,
        codec=messages.CodecChoice(),
        plan=messages.TrainingPlan(learning_rate=1.0, clip_norm=1.0),
        report_deadline_s=60.0,
    ),
]


def find(reference: str, document: dict = DOCUMENT):
    file, _, pointer = reference.partition("#")
    found = json.loads((DOCS / file).read_text()) if file else document
    for step in pointer.removeprefix("/").split("/"):
        found = found[step]
    return found


def references(node):
    if isinstance(node, dict):
        yield from (value for key, value in node.items() if key == "$ref")
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_every_reference_leads_somewhere():
    assert all(find(reference) for reference in references(DOCUMENT))


def test_every_kind_of_message_has_its_channel_and_its_operation():
    kinds = topics.UP_KINDS | topics.DOWN_KINDS | {"announce", "status"}
    assert kinds == set(messages.TYPES) | {"report", topics.SUM_ANSWER, topics.SUM_QUESTION}
    for part in (DOCUMENT["channels"], DOCUMENT["operations"], DOCUMENT["components"]["messages"]):
        assert part.keys() == kinds


@pytest.mark.parametrize("kind", DOCUMENT["channels"])
def test_each_address_is_a_topic_that_the_code_reads(kind):
    channel = DOCUMENT["channels"][kind]
    values = {"population": "demo", "shard": "0", "device": "phone-01"}
    assert {f"{{{name}}}" for name in channel["parameters"]} <= set(channel["address"].split("/"))
    topic = topics.parse(channel["address"].format(**values))
    action = DOCUMENT["operations"][kind]["action"]
    match topic:
        case topics.UpTopic("demo", 0, "phone-01", said):
            assert (said, action) == (kind, "receive")
        case topics.DownTopic("demo", "phone-01", said):
            assert (said, action) == (kind, "send")
        case topics.StatusTopic():
            assert (kind, action) == ("status", "receive")
        case topics.AnnounceTopic():
            assert (kind, action) == ("announce", "send")


def test_there_is_an_example_of_every_message():
    assert {type(example) for example in EXAMPLES} == set(messages.TYPES.values())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_what_the_code_writes_is_what_the_document_describes(example):
    payload, data = (
        DOCUMENT["components"]["messages"][messages.KINDS[type(example)]]["payload"],
        messages.encode(example),
    )
    parts = [(payload, data)]
    if "allOf" in payload:  # it travels as a text, with a signature
        sealed, more = payload["allOf"]
        parts = [(sealed, data), (more["properties"]["signed"]["contentSchema"], messages.sealed(data).signed)]
    for reference, said in parts:
        file, _, pointer = reference["$ref"].partition("#")
        schema = {**json.loads((DOCS / file).read_text()), "$ref": f"#{pointer}"}
        schema.pop("properties")
        jsonschema_rs.validate(schema, json.loads(said))
        with pytest.raises(jsonschema_rs.ValidationError):
            jsonschema_rs.validate(schema, [])
