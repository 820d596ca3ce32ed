"""The manifest: which program, weights and vocabulary make up one version of a model.

It is canonical JSON, so its sha256 identifies the version. Decoding untrusted bytes gives a manifest whose parts are
consistent, or raises RemoteProtocolError. Hyperparameters are not here: they travel in the assignment.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, NoReturn

import msgspec
from msgspec import Meta

from nightjar.models.compact_ngram import MAX_NGRAM_BYTES
from nightjar.models.configurations import CELL_NAMES, CellName, ModelConfiguration, lstm_layout
from nightjar.models.lexicon import MAX_LEXICON_BYTES
from nightjar.models.vocabulary import FIRST_WORD
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.parameters import ParameterLayout

MAX_MANIFEST_BYTES = 1 << 16
MAX_ARTIFACT_BYTES = 1 << 30

Sha256Hex = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", max_length=64, description="64 hexadecimal digits")]
SizeBytes = Annotated[int, Meta(ge=1, le=MAX_ARTIFACT_BYTES)]


class Artifact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An immutable file, named by its hash.

    >>> Artifact.of(b"x").size_bytes
    1
    """

    sha256: Sha256Hex
    size_bytes: SizeBytes

    @classmethod
    def of(cls, data: bytes) -> Artifact:
        """The artifact with this content."""
        return cls(hashlib.sha256(data).hexdigest(), len(data))


class Transfer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A smaller download for the weights of a version: a file of :mod:`nightjar.wire.codec.transfers`.

    Attributes:
        file: the transfer.
        base: sha256 of the weights that it is relative to; None if it is complete.
        target: sha256 of the weights that it leads to, an earlier version's; None for those of the manifest.
    """

    file: Artifact
    base: Sha256Hex | None = None
    target: Sha256Hex | None = None


class LexiconFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lexicon of a language (ISO 639 code), for the keyboard: a file of :mod:`nightjar.models.lexicon`."""

    language: Annotated[str, Meta(pattern=r"^[a-z]{2,3}\Z", max_length=3)]
    file: Artifact


KEYBOARD = "keyboard"
"""The task type of manifests that name none: next-word prediction."""

TaskTypeName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]*\Z", max_length=32)]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One version of a model.

    Attributes:
        version: counts committed rounds; 0 is the initial model.
        configuration: name of the model configuration, for display; the shapes below are authoritative.
        program: the ``.tflite`` file.
        weights: flat little-endian float32 vector of all parameters.
        vocabulary: what the outputs mean: words or classes, one a line; empty if the targets are numbers.
        layout: names and shapes of the parameters, in order.
        batch_rows: B of the program's ``train`` and ``evaluate``.
        sequence_length: T of a keyboard's ``train`` and ``evaluate``.
        hidden: H, size of a keyboard's state c.
        minimum_agent_version: the oldest agent that may run this program, ``major.minor.patch``.
        transfers: smaller downloads for the same weights, in one step or several.
        bases: what devices encode updates against this version with, for secure sums
            (:mod:`nightjar.wire.secure_sum.low_rank`).
        lexicons: lexicons for keyboards, in order of language.
        ngram: n-gram model of public text, which keyboards mix with the model; None if there is none.
        task_type: what is predicted, from which examples (:mod:`nightjar.models.task_types`).
        inputs: shape of one example; empty for a keyboard.
        memory_bytes: private memory of a training step, measured at the export; 0 if it was not measured.
    """

    version: Annotated[int, Meta(ge=0, lt=1 << 53)]
    configuration: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]*\Z", max_length=64)]
    program: Artifact
    weights: Artifact
    vocabulary: Artifact
    layout: ParameterLayout
    batch_rows: Annotated[int, Meta(ge=1, le=4096)]
    sequence_length: Annotated[int, Meta(ge=0, le=4096)] = 0
    hidden: Annotated[int, Meta(ge=0, le=1 << 16)] = 0
    minimum_agent_version: Annotated[str, Meta(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+\Z", max_length=32)]
    transfers: Annotated[tuple[Transfer, ...], Meta(max_length=64)] = ()
    bases: Artifact | None = None
    lexicons: Annotated[tuple[LexiconFile, ...], Meta(max_length=64)] = ()
    ngram: Artifact | None = None
    task_type: TaskTypeName = KEYBOARD
    inputs: Annotated[tuple[Annotated[int, Meta(ge=1, le=1 << 20)], ...], Meta(max_length=4)] = ()
    memory_bytes: Annotated[int, Meta(ge=0, lt=1 << 53)] = 0

    @property
    def for_keyboards(self) -> tuple[Artifact, ...]:
        """The files that only a device with a keyboard needs."""
        return (*(each.file for each in self.lexicons), *([] if self.ngram is None else [self.ngram]))

    @property
    def embedding(self) -> int:
        """D, size of the state h."""
        return self.layout.tensors[0].shape[1]

    @property
    def vocabulary_size(self) -> int:
        """V, specials included."""
        return self.layout.tensors[0].shape[0]

    @property
    def cell(self) -> CellName:
        """The recurrent cell, which the layout tells.

        Raises:
            RemoteProtocolError: the layout is of none.
        """
        for cell in CELL_NAMES:
            if self.layout == lstm_layout(self.vocabulary_size, self.embedding, self.hidden, cell):
                return cell
        msg = f"manifest: expected the layout of {' or '.join(CELL_NAMES)} with {self.hidden} units, got {self.layout}"
        raise RemoteProtocolError(msg, code="manifest")

    @property
    def shape(self) -> ModelConfiguration:
        """The shape of the model, from the layout rather than the name."""
        return ModelConfiguration(
            self.configuration,
            max_vocabulary=self.vocabulary_size,
            embedding=self.embedding,
            hidden=self.hidden,
            batch_rows=self.batch_rows,
            sequence_length=self.sequence_length,
            cell=self.cell,
        )

    @property
    def sha256(self) -> str:
        """The identity of this manifest: sha256 of its bytes, in hex."""
        return hashlib.sha256(self.encode()).hexdigest()

    def encode(self) -> bytes:
        """Encode as canonical JSON; equal manifests have equal bytes."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(data: bytes) -> Manifest:
        """Read an untrusted manifest.

        Raises:
            RemoteProtocolError: not a manifest in canonical form, a value out of range, or inconsistent parts.
        """
        if len(data) > MAX_MANIFEST_BYTES:
            msg = f"a manifest has at most {MAX_MANIFEST_BYTES} bytes, got {len(data)}"
            raise RemoteProtocolError(msg, code="manifest")
        try:
            manifest = _DECODER.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            msg = f"not a manifest: {error}"
            raise RemoteProtocolError(msg, code="manifest") from error
        _check_agreement(manifest, data)
        return manifest


_DECODER = msgspec.json.Decoder(Manifest)


def _check_agreement(manifest: Manifest, data: bytes) -> None:
    if manifest.task_type == KEYBOARD:
        _check_keyboard(manifest)
    if manifest.weights.size_bytes != 4 * manifest.layout.size:
        _refuse(f"weights of this layout have {4 * manifest.layout.size} bytes, got {manifest.weights.size_bytes}")
    languages = [each.language for each in manifest.lexicons]
    if languages != sorted(set(languages)) or any(
        each.file.size_bytes > MAX_LEXICON_BYTES for each in manifest.lexicons
    ):
        _refuse(f"expected lexicons of at most {MAX_LEXICON_BYTES} bytes in order of language, each once")
    if manifest.ngram is not None and manifest.ngram.size_bytes > MAX_NGRAM_BYTES:
        _refuse(f"expected an n-gram model of at most {MAX_NGRAM_BYTES} bytes, got {manifest.ngram.size_bytes}")
    if manifest.encode() != data:
        # Two encodings of one manifest would have two hashes.
        _refuse("expected canonical JSON, got another encoding of the same values")


def _check_keyboard(manifest: Manifest) -> None:
    tensors = manifest.layout.tensors
    if not tensors or len(tensors[0].shape) != 2:
        _refuse("expected a layout that begins with a two-dimensional embedding")
    if not (manifest.sequence_length and manifest.hidden):
        _refuse("expected the sequence length and the units of a keyboard model")
    _ = manifest.cell
    if manifest.vocabulary_size <= FIRST_WORD:
        _refuse(f"expected at least {FIRST_WORD + 1} word ids, got {manifest.vocabulary_size}")


def _refuse(why: str) -> NoReturn:
    msg = f"manifest: {why}"
    raise RemoteProtocolError(msg, code="manifest")
