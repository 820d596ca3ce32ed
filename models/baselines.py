"""Baselines for a federated model: a trigram, and the same model trained centrally.

Both are trained on a corpus that its owner may read as a whole, and measured on the same held-out text as the versions.
Central training needs TensorFlow and takes minutes; the coordinator runs it in a child process.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from nightjar.models import corpora
from nightjar.models.batches import pack
from nightjar.models.corpora.tsv import tsv
from nightjar.models.folder import MANIFEST, VOCABULARY, WEIGHTS
from nightjar.models.manifest import Manifest
from nightjar.models.ngram import train_trigram
from nightjar.models.padding import cropped
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.wire.errors import CorpusError, UnavailableError
from nightjar.wire.parameters import weights_from_bytes

CENTRAL_TRAINING = "central training"
"""Prefix of the progress lines."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of one model, and the seconds and batches of its training.

    The loss is the mean cross-entropy per target, nats; None for the trigram, which has no batches either.
    """

    top1: float
    top3: float
    loss: float | None = None
    seconds: float
    steps: int = 0


class Baselines(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of both baselines, and how they were made.

    ``before`` is the model before its central training; federated training starts from the same weights. The hashes are
    of the corpus's messages, of the file of held-out text and of these weights.
    """

    trigram: Measured
    central: Measured
    before: Measured
    corpus: str
    corpus_sha256: str
    messages: int
    text_sha256: str
    learning_rate: float
    clip_norm: float
    epochs: int
    seed: int
    weights_sha256: str


def measure_baselines(
    folder: Path,
    corpus: str,
    text: Path,
    *,
    epochs: int,
    learning_rate: float,
    clip_norm: float,
    seed: int,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Baselines:
    """Train both baselines on a corpus and measure them on a text.

    Central training starts from the weights in the folder; its learning rate falls to a tenth in the second half.

    Raises:
        CorpusError: a text cannot be read, or has no words.
        RemoteProtocolError: the folder holds no model.
        UnavailableError: the model cannot be read.
    """
    from nightjar.models.evaluation import evaluate  # imports TensorFlow
    from nightjar.models.training import train_centrally

    try:
        manifest = Manifest.decode((folder / MANIFEST).read_bytes())
        weights = weights_from_bytes((folder / WEIGHTS).read_bytes(), manifest.layout)
        vocabulary = Vocabulary.from_bytes((folder / VOCABULARY).read_bytes())
    except OSError as error:
        msg = f"cannot read the model in {folder}: {error}"
        raise UnavailableError(msg) from error
    read = corpora.load(corpus, seed)
    said = [message for messages in read.users.values() for message in messages]
    seen = [vocabulary.encode(words(message)) for message in said]
    held_out = [vocabulary.encode(words(m)) for messages in tsv(text).users.values() for m in messages]
    shape, size, length = manifest.shape, vocabulary.size, manifest.sequence_length
    weights = cropped(weights, manifest.layout, size)

    begun_s = time.perf_counter()
    foreseen = train_trigram(seen, size).recall(held_out)
    trigram = Measured(top1=foreseen.top1, top3=foreseen.top3, seconds=time.perf_counter() - begun_s)

    batches = pack(seen, manifest.batch_rows, length, np.random.default_rng(seed))
    looked = pack(held_out, manifest.batch_rows, length)
    if not batches.targets or not looked.counted_targets:
        msg = f"{corpus if not batches.targets else text} has no words of the model's vocabulary; use another text"
        raise CorpusError(msg)
    first = evaluate(weights, shape, size, looked)
    begun_s, steps = time.perf_counter(), epochs * len(batches)
    trained = train_centrally(
        weights,
        shape,
        size,
        batches,
        steps=steps,
        learning_rate=learning_rate,
        clip_norm=clip_norm,
        progress=progress,
    )
    taken_s = time.perf_counter() - begun_s
    last = evaluate(trained, shape, size, looked)
    return Baselines(
        trigram=trigram,
        central=Measured(top1=last.top1, top3=last.top3, loss=last.loss, seconds=taken_s, steps=steps),
        before=Measured(top1=first.top1, top3=first.top3, loss=first.loss, seconds=0.0),
        corpus=read.name,
        corpus_sha256=hashlib.sha256("\n".join(said).encode()).hexdigest(),
        messages=len(said),
        text_sha256=hashlib.sha256(text.read_bytes()).hexdigest(),
        learning_rate=learning_rate,
        clip_norm=clip_norm,
        epochs=epochs,
        seed=seed,
        weights_sha256=manifest.weights.sha256,
    )
