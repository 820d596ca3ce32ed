"""A partly trained model in the device's runtime, in this process: the start of measurements on real training.

The program is loaded as in an agent and trained centrally on the text of people who are not clients, with its own
``train`` signature, so TensorFlow is needed at most once, to export the program. There are no rounds here.
"""

from __future__ import annotations

import itertools
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from nightjar.edge_agent.ports import Program
from nightjar.edge_agent.shell.model_files import exported_model
from nightjar.edge_agent.shell.tflite import TfliteProgram, load_program
from nightjar.models.batches import Batches, Ids, pack
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.export import export_program
from nightjar.models.folder import write_model_folder
from nightjar.models.initial import initial_weights
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.models.warm_start import CLIP_NORM, RATE
from nightjar.wire.errors import UnavailableError

PROGRAMS = Path("build") / "programs"


def seeded(seed: int, *names: str | int) -> np.random.Generator:
    """A generator for one purpose, seeded by the root seed and the names, so that purposes never share draws."""
    entropy = [name if isinstance(name, int) else zlib.crc32(name.encode()) for name in names]
    return np.random.default_rng(np.random.SeedSequence([seed, *entropy]))


def full_vocabulary(texts: Iterable[str], size: int) -> tuple[Vocabulary, int]:
    """The vocabulary of raw messages, filled up with invented words so that the model has all its parameters.

    >>> vocabulary, invented = full_vocabulary(["a b"], 8)
    >>> vocabulary.words, invented
    (('a', 'b', 'word0', 'word1'), 2)

    Returns:
        The vocabulary of ``size`` ids, specials included, and the number of invented words.

    Raises:
        CorpusError: there is no word in the texts.
    """
    known = Vocabulary.build(texts, size)
    taken = set(known.words)
    free = (word for word in (f"word{i}" for i in itertools.count()) if word not in taken)
    invented = tuple(itertools.islice(free, size - known.size))
    return Vocabulary((*known.words, *invented)), len(invented)


def load_device(shape: ModelConfiguration, vocabulary: Vocabulary, seed: int) -> TfliteProgram:
    """Load the program with random weights, with one thread.

    Raises:
        ConfigError: no TFLite runtime, or the program is not in the cache and TensorFlow is not installed.
        UnavailableError: the program could not be exported.
    """
    program = export_program(shape, vocabulary.size, PROGRAMS)
    with tempfile.TemporaryDirectory() as folder:
        write_model_folder(Path(folder), shape, vocabulary, program, initial_weights(shape, vocabulary.size, seed))
        return load_program(exported_model(Path(folder)))


def warm_up_batches(
    texts: Sequence[str], vocabulary: Vocabulary, shape: ModelConfiguration, steps: int, seed: int
) -> list[tuple[Ids, Ids]]:
    """So many batches of randomly drawn raw messages, each with a word; they repeat if the text is too short."""
    wanted = steps * shape.batch_rows * shape.sequence_length
    chosen: list[list[int]] = []
    targets = 0
    for i in seeded(seed, "warm-up").permutation(len(texts)).tolist():
        if targets >= wanted:
            break
        chosen.append(vocabulary.encode(words(texts[i])))
        targets += len(chosen[-1]) + 1
    packed = pack(chosen, shape.batch_rows, shape.sequence_length)
    return list(itertools.islice(itertools.cycle(packed), steps))


def warm_up(device: Program, batches: Iterable[tuple[Ids, Ids]]) -> None:
    """Train the device's weights with plain SGD.

    Raises:
        UnavailableError: the loss is no longer finite.
    """
    for x, y in batches:
        loss = device.train(x, y, RATE, CLIP_NORM).loss
        if not np.isfinite(loss):
            msg = f"the warm-up diverged, the loss was {loss}; use another --seed"
            raise UnavailableError(msg)


def evaluate(device: Program, parts: Iterable[Batches]) -> tuple[float, float, float]:
    """Evaluate the device's weights on all batches together.

    Returns:
        Mean loss per target in nats, top-1 and top-3 recall from 0 to 1; zeros where there are no targets.
    """
    scores = [device.evaluate(x, y) for batches in parts for x, y in batches]
    targets = max(1.0, sum(s.targets for s in scores))
    counted = max(1.0, sum(s.counted for s in scores))
    return (
        sum(s.loss_sum for s in scores) / targets,
        sum(s.top1 for s in scores) / counted,
        sum(s.top3 for s in scores) / counted,
    )
