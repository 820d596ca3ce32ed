"""The worker process: reads jobs and writes results as lines of JSON.

It is the only part of the coordinator that imports TensorFlow, and it does so only when it has to measure a version.
It ends when its input ends or its parent dies.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from nightjar.coordinator.engine.aggregation import do_job
from nightjar.coordinator.engine.worker import STORES, Stores
from nightjar.coordinator.ports import PrivateStore
from nightjar.coordinator.records.jobs import Job, failed
from nightjar.coordinator.storage.artifacts import open_artifacts
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.private import PrivateTables
from nightjar.coordinator.versions.quality_gate import Example, VersionMetrics
from nightjar.host.children import answer_lines, die_with_parent, own_output
from nightjar.host.retrying import keep_trying
from nightjar.models.manifest import Manifest
from nightjar.wire.errors import NightjarError, UnavailableError
from nightjar.wire.parameters import Vector

JOBS: msgspec.json.Decoder[Job] = msgspec.json.Decoder(Job)


def answers(
    artifacts: FileBlobs, private: PrivateStore, sleep: Callable[[float], object] = time.sleep
) -> Callable[[bytes], bytes]:
    """A function from a job to its result, both lines of JSON."""

    def measure(manifest: Manifest, weights: Vector, held_out: str) -> VersionMetrics:
        from nightjar.models import measuring  # loads half a gigabyte of TensorFlow

        found, suggestions = measuring.measure(artifacts.get, manifest, weights, Path(held_out))
        examples = tuple(Example(*each) for each in suggestions)
        return VersionMetrics(found.top1, found.top3, found.loss, found.hits, examples)

    def attempt(job: Job) -> bytes:
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # do_job checks the result
                return msgspec.json.encode(do_job(job, artifacts, private, measure))
        except NightjarError:
            raise
        except Exception as error:
            return msgspec.json.encode(failed(job, f"{type(error).__name__}: {error}"))

    def answer(line: bytes) -> bytes:
        job = JOBS.decode(line)
        return done_patiently(job, lambda: attempt(job), sleep)

    return answer


def answers_at(stores: Stores) -> Callable[[bytes], bytes]:
    """:func:`answers` that opens what it reads and writes."""
    database = Database(stores.database_url, migrate=False, term=stores.term)
    artifacts = open_artifacts(Path(stores.artifacts), stores.artifacts_url, database)
    return answers(artifacts, PrivateTables(database))


def done_patiently(job: Job, attempt: Callable[[], bytes], sleep: Callable[[float], object]) -> bytes:
    """The result of an attempt, or of those that follow while a store or a cluster is unavailable."""

    def refused(error: UnavailableError, wait_s: float) -> None:
        sys.stderr.write(f"{type(job).__name__}: {error}; again in {wait_s:g} s\n")  # the worker's log

    try:
        return keep_trying(attempt, sleep, refused)
    except (NightjarError, OSError) as error:
        return msgspec.json.encode(failed(job, str(error)))


def serve(parent: int, answers_for: Callable[[Stores], Callable[[bytes], bytes]]) -> None:
    """Answer the jobs on standard input until it ends or the process ``parent``, which started this one, dies."""
    die_with_parent(parent)
    results = own_output()
    stores = msgspec.json.decode(os.environ[STORES], type=Stores)
    answer_lines(sys.stdin.buffer, results, answers_for(stores))


def main(arguments: list[str]) -> None:
    """Entry point; the argument is the process id of the parent."""
    (parent,) = arguments
    serve(int(parent), answers_at)


if __name__ == "__main__":
    main(sys.argv[1:])
