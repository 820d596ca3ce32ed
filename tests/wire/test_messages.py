import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.wire import messages
from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.identifiers import Sha256

HASH = Sha256("ab" * 32)
EXAMPLES = [
    messages.CheckIn(agent_version="0.1.0", runtime="ai-edge-litert 2.3.0", examples=12, weights=HASH),
    messages.Assignment(
        task="words",
        round=4,
        attempt=1,
        version=3,
        manifest=HASH,
        codec=messages.CodecChoice(),
        plan=messages.TrainingPlan(learning_rate=1.0, clip_norm=1.0, local_epochs=2),
        report_deadline_s=60.0,
    ),
    messages.Rejection(reason=messages.RejectionReason.NOT_SELECTED, retry_after_s=5.0),
    messages.Dropout(round=4, attempt=1, cause=messages.DropoutCause.UNPLUGGED),
    messages.Query(round=4, attempt=1, chunks=3),
    messages.Missing(round=4, attempt=1, chunks=(0, 2)),
    messages.Receipt(round=4, attempt=1, verdict=messages.Verdict.INVALID, code="crc"),
    messages.Announcement(version=3, manifest=HASH),
    messages.Status(online=True, state="training", reason="selected for round 4"),
]


def test_every_kind_has_an_example_here():
    assert {type(m) for m in EXAMPLES} == set(messages.TYPES.values())


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_a_message_survives_the_wire(message):
    assert messages.decode(messages.KINDS[type(message)], messages.encode(message)) == message


def test_an_order_of_a_coordinator_of_before_with_error_feedback_is_read_without():
    order = EXAMPLES[1]
    fields = msgspec.to_builtins(order)
    fields["codec"]["error_feedback"] = True
    sealed = msgspec.json.encode(messages.Sealed(signed=msgspec.json.encode(fields).decode()))
    assert messages.decode("assignment", sealed) == order


def test_a_release_that_an_older_agent_calls_taken_back_is_read_as_rolled_back():
    said = b'{"online":true,"agent_version":"0.1.0","taken_back":"0.2.0: not up within 180 s"}'
    wanted = messages.Status(online=True, agent_version="0.1.0", rolled_back="0.2.0: not up within 180 s")
    assert messages.decode("status", said) == wanted
    assert type(messages.decode("status", said)) is messages.Status


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_each_missing_required_field_is_a_protocol_error(message):
    kind = messages.KINDS[type(message)]
    fields = msgspec.to_builtins(message)
    for field in msgspec.structs.fields(message):
        if field.required:
            data = msgspec.json.encode({k: v for k, v in fields.items() if k != field.name})
            if kind in messages.SIGNED:
                data = msgspec.json.encode(messages.Sealed(signed=data.decode()))
            with pytest.raises(RemoteProtocolError, match=field.name):
                messages.decode(kind, data)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("check-in", b'{"agent_version":"1","runtime":"x","examples":-1}'),
        ("check-in", b'{"agent_version":"1","runtime":"x","examples":1,"program":"../../etc/passwd"}'),
        ("dropout", b'{"round":1,"attempt":0,"cause":"unplugged"}'),
        ("dropout", b'{"round":1,"attempt":1,"cause":"bored"}'),
        ("rejection", b'{"reason":"no-task","retry_after_s":1e999}'),
        ("rejection", b'{"reason":"no-task","retry_after_s":NaN}'),
        ("status", b"\xff\xfe"),
        ("status", b"[" * 10_000),
        ("status", b""),
        ("launch", b"{}"),
    ],
)
def test_hostile_messages_are_protocol_errors(kind, data):
    with pytest.raises(RemoteProtocolError):
        messages.decode(kind, data)


def test_an_oversized_message_is_refused_unread_and_unsent():
    with pytest.raises(RemoteProtocolError, match="16384"):
        messages.decode("status", b" " * 20_000)
    with pytest.raises(LocalProtocolError):
        messages.encode(messages.Missing(round=1, attempt=1, chunks=tuple(range(10_000))))


def test_what_a_device_obeys_travels_as_the_very_text_that_was_signed():
    for message in EXAMPLES:
        kind, data = messages.KINDS[type(message)], messages.encode(message, lambda text: f"{len(text):0128x}")
        if kind not in messages.SIGNED:
            assert data == messages.encode(message)
            continue
        sealed = messages.sealed(data)
        assert msgspec.json.decode(sealed.signed, type=type(message)) == message == messages.decode(kind, data)
        assert int(sealed.signature, 16) == len(sealed.signed)
        with pytest.raises(RemoteProtocolError, match="text and its signature"):
            messages.decode(kind, sealed.signed.encode())


def test_fields_of_a_newer_sender_are_ignored():
    assert messages.decode("status", b'{"online":true,"mood":"good"}') == messages.Status(online=True)


@given(st.sampled_from(sorted(messages.TYPES)), st.binary(max_size=100))
def test_any_bytes_are_a_message_or_a_protocol_error(kind, data):
    with contextlib.suppress(RemoteProtocolError):
        assert type(messages.decode(kind, data)) is messages.TYPES[kind]
