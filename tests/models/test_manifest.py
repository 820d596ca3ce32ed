import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.models.configurations import CONFIGURATIONS, ModelConfiguration, configuration
from nightjar.models.manifest import MAX_MANIFEST_BYTES, Artifact, LexiconFile, Manifest
from nightjar.wire.errors import RemoteProtocolError

LAYOUT = configuration("tiny").layout(100)
MANIFEST = Manifest(
    version=3,
    configuration="tiny",
    program=Artifact.of(b"program"),
    weights=Artifact("ab" * 32, 4 * LAYOUT.size),
    vocabulary=Artifact.of(b"words"),
    layout=LAYOUT,
    batch_rows=16,
    sequence_length=20,
    hidden=128,
    minimum_agent_version="0.1.0",
)


def test_bytes_round_trip_and_are_named_by_their_hash() -> None:
    data = MANIFEST.encode()
    assert Manifest.decode(data) == MANIFEST
    assert MANIFEST.sha256 == hashlib.sha256(data).hexdigest()
    assert (MANIFEST.vocabulary_size, MANIFEST.embedding, MANIFEST.hidden) == (100, 64, 128)


@pytest.mark.parametrize("shape", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_the_layout_tells_the_cell(shape: ModelConfiguration) -> None:
    layout = shape.layout(100)
    weights = Artifact("ab" * 32, 4 * layout.size)
    manifest = msgspec.structs.replace(MANIFEST, layout=layout, hidden=shape.hidden, weights=weights)
    assert Manifest.decode(manifest.encode()).shape.cell == shape.cell
    if shape.cell == "gru":
        with pytest.raises(RemoteProtocolError, match="expected the layout of cifg or lstm or gru with 7 units"):
            Manifest.decode(msgspec.structs.replace(manifest, hidden=7).encode())


def test_lexicons_are_in_order_each_language_once() -> None:
    english, german = (LexiconFile(language, Artifact.of(b"words")) for language in ("en", "de"))
    ordered = msgspec.structs.replace(MANIFEST, lexicons=(german, english))
    assert Manifest.decode(ordered.encode()) == ordered
    large = LexiconFile("en", Artifact("ab" * 32, 1_500_001))
    for lexicons in ((english, german), (german, german), (large,)):
        with pytest.raises(RemoteProtocolError, match="in order of language"):
            Manifest.decode(msgspec.structs.replace(MANIFEST, lexicons=lexicons).encode())


def test_an_ngram_model_has_a_largest_size() -> None:
    fine, large = (
        msgspec.structs.replace(MANIFEST, ngram=Artifact("ab" * 32, size)) for size in (2_000_000, 2_000_001)
    )
    assert Manifest.decode(fine.encode()) == fine
    with pytest.raises(RemoteProtocolError, match="at most 2000000 bytes, got 2000001"):
        Manifest.decode(large.encode())


def test_an_artifact_is_named_by_its_hash() -> None:
    assert Artifact.of(b"words") == Artifact(hashlib.sha256(b"words").hexdigest(), 5)


def change(**fields: Any) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(MANIFEST) | fields)


def layout_with(**shapes: list[int]) -> dict[str, Any]:
    return {"tensors": [{"name": t.name, "shape": shapes.get(t.name, list(t.shape))} for t in LAYOUT.tensors]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff\xff",
        b"[" * 5000,
        MANIFEST.encode()[:-1],
        MANIFEST.encode() + b" ",
        MANIFEST.encode().replace(b'"version":3', b'"version": 3'),
        b" " * (MAX_MANIFEST_BYTES + 1),
        change(version=-1),
        change(version="3"),
        change(version=1 << 60),
        change(surprise=1),
        change(configuration="../etc"),
        change(configuration="tiny\n"),
        change(program={"sha256": "AB" * 32, "size_bytes": 1}),
        change(program={"sha256": "ab" * 31, "size_bytes": 1}),
        change(program={"sha256": "ab" * 32, "size_bytes": 0}),
        change(program={"sha256": "ab" * 32, "size_bytes": 1 << 40}),
        change(weights={"sha256": "ab" * 32, "size_bytes": 4 * LAYOUT.size - 4}),
        change(batch_rows=0),
        change(sequence_length=1 << 20),
        change(hidden=127),
        change(minimum_agent_version="latest"),
        change(layout={"tensors": []}),
        change(layout={"tensors": [{"name": "embedding", "shape": [5]}]}),
        change(layout={"tensors": [{"name": "embedding", "shape": []}]}),
        change(layout=layout_with(projection=[128, 63])),
        change(layout=layout_with(embedding=[-100, 64])),
        change(layout=layout_with(embedding=[1 << 40, 64])),
        change(
            layout=layout_with(embedding=[4, 64]),
            weights={"sha256": "ab" * 32, "size_bytes": 4 * LAYOUT.size - 96 * 256},
        ),
    ],
)
def test_hostile_bytes_are_a_remote_protocol_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        Manifest.decode(data)


@given(st.integers(0, len(MANIFEST.encode()) - 1), st.integers(0, 255))
def test_one_changed_byte_is_another_manifest_or_an_error(at: int, byte: int) -> None:
    data = bytearray(MANIFEST.encode())
    data[at] = byte
    try:
        manifest = Manifest.decode(bytes(data))
    except RemoteProtocolError:
        return
    assert manifest.encode() == data
