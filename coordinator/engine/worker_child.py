"""The worker process: reads jobs and writes results as lines of JSON.

It is the only part of the coordinator that imports TensorFlow, and it does so only when it has to measure a version.
It ends when its input ends or its parent dies.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import numpy as np

from coordinator.engine.aggregation import do_job
from coordinator.engine.jobs import Example, Job, Result, VersionMetrics, failed
from coordinator.engine.worker import STORES, Stores
from coordinator.ports import PrivateStore
from coordinator.storage.artifacts import open_artifacts
from coordinator.storage.blobs import FileBlobs
from coordinator.storage.database import Database
from coordinator.storage.private import PrivateTables
from host.children import answer_lines, die_with_parent, own_output
from host.retrying import keep_trying
from models.batches import Batches, pack
from models.corpora.tsv import tsv
from models.manifest import Manifest
from models.places import Place, places
from models.vocabulary import Vocabulary, words
from wire.errors import NightjarError, UnavailableError
from wire.parameters import Vector

EVALUATION_ROWS = 32
"""Rows per evaluation batch: twice the training batch for speed; the logits take 26 MB for 10,000 words."""

_JOBS: msgspec.json.Decoder[Job] = msgspec.json.Decoder(Job)


class _HeldOut(NamedTuple):
    """A corpus, packed, and the places in it where people see what a version suggests."""

    vocabulary: Vocabulary
    batches: Batches
    places: list[Place]


class Evaluator:
    """Measures weights on a corpus; caches the packed corpus.

    Args:
        artifacts: store of the vocabularies.
    """

    def __init__(self, artifacts: FileBlobs) -> None:
        self._artifacts = artifacts
        self._read = functools.lru_cache(maxsize=2)(self._read_text)

    def measure(self, manifest: Manifest, weights: Vector, text: str) -> VersionMetrics:
        """The metrics of weights on the text.

        Raises:
            CorpusError: the text cannot be read.
        """
        from models.evaluation import best_words, evaluate  # loads half a gigabyte of TensorFlow

        held_out = self._read(text, manifest.vocabulary.sha256, manifest.sequence_length)
        vocabulary, shape, size = held_out.vocabulary, manifest.shape, manifest.vocabulary_size
        metrics = evaluate(weights, shape, size, held_out.batches)
        contexts = [vocabulary.encode(place.beginning) for place in held_out.places]
        best = best_words(weights, shape, size, contexts)
        examples = tuple(
            Example(" ".join(place.beginning), place.meant, tuple(vocabulary.word(word) for word in three))
            for place, three in zip(held_out.places, best, strict=True)
        )
        return VersionMetrics(metrics.top1, metrics.top3, metrics.loss, metrics.hits, examples)

    def _read_text(self, text: str, vocabulary_sha256: str, sequence_length: int) -> _HeldOut:
        vocabulary = Vocabulary.from_bytes(self._artifacts.get(vocabulary_sha256))
        messages = [words(message) for user in tsv(Path(text)).users.values() for message in user]
        batches = pack([vocabulary.encode(message) for message in messages], EVALUATION_ROWS, sequence_length)
        return _HeldOut(vocabulary, batches, places(messages, vocabulary))


def serve(
    jobs: BinaryIO,
    results: BinaryIO,
    artifacts: FileBlobs,
    private: PrivateStore,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Do jobs until the input ends."""
    evaluator = Evaluator(artifacts)

    def answer(line: bytes) -> bytes:
        return msgspec.json.encode(_patiently(_JOBS.decode(line), artifacts, private, evaluator, sleep))

    answer_lines(jobs, results, answer)


def _patiently(
    job: Job,
    artifacts: FileBlobs,
    private: PrivateStore,
    evaluator: Evaluator,
    sleep: Callable[[float], object],
) -> Result:
    def refused(error: UnavailableError, wait_s: float) -> None:
        sys.stderr.write(f"{type(job).__name__}: {error}; again in {wait_s:g} s\n")  # the worker's log

    try:
        return keep_trying(lambda: _attempt(job, artifacts, private, evaluator), sleep, refused)
    except UnavailableError as error:
        return failed(job, str(error))


def _attempt(job: Job, artifacts: FileBlobs, private: PrivateStore, evaluator: Evaluator) -> Result:
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # do_job checks the result
            return do_job(job, artifacts, private, evaluator.measure)
    except UnavailableError:
        raise
    except NightjarError as error:
        return failed(job, str(error))
    except Exception as error:
        return failed(job, f"{type(error).__name__}: {error}")


def main(arguments: list[str]) -> None:
    """Entry point; the argument is the process id of the parent."""
    (parent,) = arguments
    die_with_parent(int(parent))
    results = own_output()
    stores = msgspec.json.decode(os.environ[STORES], type=Stores)
    database = Database(stores.database_url, migrate=False, term=stores.term)
    artifacts = open_artifacts(Path(stores.artifacts), stores.artifacts_url, database)
    serve(sys.stdin.buffer, results, artifacts, PrivateTables(database))


if __name__ == "__main__":
    main(sys.argv[1:])
