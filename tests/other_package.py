"""An installed package that brings plug-ins: entry points in a folder on the path, and one module."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from nightjar.coordinator.learning import strategies
from nightjar.models import task_types
from nightjar.wire.codec import codecs

CACHES = (strategies.installed, codecs.installed, task_types.installed)


def write_package(folder: Path, name: str, entry_points: str, code: str) -> Path:
    """The folder of a distribution ``name`` 1.2 with the module ``name``."""
    about = folder / f"{name}-1.2.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(entry_points)
    (folder / f"{name}.py").write_text(code)
    return folder


@contextlib.contextmanager
def installed(folder: Path, monkeypatch, *package: str) -> Iterator[None]:
    monkeypatch.syspath_prepend(write_package(folder, *package))
    for cache in CACHES:
        cache.cache_clear()
    try:
        yield
    finally:
        for cache in CACHES:
            cache.cache_clear()


ENTRY_POINTS = """
[nightjar.strategies]
halved = tides:halved
fedavg = tides:halved
not_one = tides:SIGNS_ID
[nightjar.codecs]
signs = tides:SIGNS
signs_again = tides:SIGNS
topk-4 = tides:SIGNS
missing = tides:NOTHING
"""
CODE = """
import numpy as np

from nightjar.coordinator.learning.strategies.server_optimizer import ServerOptimizer, moved
from nightjar.wire.codec import Entry, Sparse
from nightjar.wire.codec.contract import Encoded, Received

SIGNS_ID = 200


def halved(choice):
    rate = choice.learning_rate / 2
    return ServerOptimizer(lambda n: np.zeros((0, n)), lambda w, mean, state: (moved(w, rate * mean), state))


def signs(density):
    def sent(bits, n):
        return Sparse(n, np.arange(n), np.where(np.unpackbits(bits)[:n], 1, -1).astype(np.float32))

    def write(delta, layout, rng):
        bits = np.packbits(delta >= 0)
        return Encoded(bits.tobytes, sent(bits, layout.size))

    def read(payload, layout):
        update = sent(np.frombuffer(payload, np.uint8), layout.size)
        return Received(float(np.sqrt(layout.size)), lambda: update)

    return write, read


SIGNS = Entry(SIGNS_ID, signs)
"""
TIDES = ("tides", ENTRY_POINTS, CODE)
"""A package with a strategy, a codec, and faults."""
