"""The task type of the keyboard: the next word, learned from typed messages.

Versions are measured in TensorFlow itself, which is faster than the program (:mod:`nightjar.models.measuring`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

from nightjar.models.batches import Batches, pack
from nightjar.models.corpora.tsv import tsv
from nightjar.models.manifest import Manifest
from nightjar.models.packaged import packaged_program
from nightjar.models.source import Source
from nightjar.models.task_types import Split
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.wire.errors import RemoteProtocolError

EVALUATION_ROWS = 32
"""Rows per evaluation batch: twice the training batch for speed; the logits take 26 MB for 10,000 words."""


def held_out(texts: Sequence[str], share: float) -> tuple[list[str], list[str]]:
    """Split messages into those for training and those held out, on average the given share.

    >>> held_out(["a", "b", "c", "d"], 0.0)
    (['a', 'b', 'c', 'd'], [])
    """
    limit = share * 2**32
    trained: list[str] = []
    kept: list[str] = []
    for text in texts:
        (kept if zlib.crc32(text.encode()) < limit else trained).append(text)
    return trained, kept


def batches_of(texts: Sequence[str], vocabulary: Vocabulary, batch_rows: int, sequence_length: int) -> Batches:
    """Turn typed messages into batches for the program."""
    return pack([vocabulary.encode(words(text)) for text in texts], batch_rows, sequence_length)


class KeyboardTask:
    """Implements :class:`nightjar.models.task_types.TaskType`."""

    figures = ("top-1 recall", "top-3 recall")

    def check(self, manifest: Manifest, vocabulary: bytes) -> None:
        """Check that the vocabulary has as many words as the model, or fewer where the program foresees padding."""
        size = Vocabulary.from_bytes(vocabulary).size
        packaged = packaged_program(manifest)
        may_be_less = packaged is not None and packaged.padded
        if not (size == manifest.vocabulary_size or (may_be_less and size < manifest.vocabulary_size)):
            msg = f"the manifest says {manifest.vocabulary_size} word ids, the vocabulary has {size}"
            raise RemoteProtocolError(msg, code="vocabulary")

    def count(self, source: Source) -> int:
        """Number of messages."""
        return len(source.texts)

    def split(self, source: Source, manifest: Manifest, vocabulary: bytes, share: float) -> Split:
        """The messages as batches, held out by their text."""
        known = Vocabulary.from_bytes(vocabulary)
        trained, held = (
            batches_of(texts, known, manifest.batch_rows, manifest.sequence_length)
            for texts in held_out(source.texts, share)
        )
        return Split(trained, held)

    def check_held_out(self, path: Path) -> None:
        """Read the corpus once."""
        tsv(path)

    def held_out(self, path: Path, manifest: Manifest, vocabulary: bytes) -> Batches:
        """A corpus (user, text) as batches."""
        texts = [text for user in tsv(path).users.values() for text in user]
        return batches_of(texts, Vocabulary.from_bytes(vocabulary), EVALUATION_ROWS, manifest.sequence_length)
