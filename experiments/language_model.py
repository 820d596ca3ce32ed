"""A federated LSTM language model on text in the form of the Penn Treebank, beside one place.

K devices hold parts of ``train.txt`` in its order; in each round all train one epoch by backpropagation through time
from the same weights, and ``W = sum of n_k / n W_k``. The model is the product's (:mod:`nightjar.models.lstm`) with a
plain LSTM cell: one layer, tied embedding. Perplexity is ``exp`` of the mean cross-entropy on ``test.txt``, unknown
words included as one; ``valid.txt`` chooses the learning rate of all. The text is that of ``DATA/ptb``, lines of words
in ``train.txt``, ``valid.txt`` and ``test.txt``; without it, messages of the generated ``personas``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from nightjar.experiments.frame import Request, ResultRow, page_command, row
from nightjar.models import corpora
from nightjar.models.batches import Batches, pack
from nightjar.models.configurations import ModelConfiguration, configuration
from nightjar.models.evaluation import evaluate
from nightjar.models.initial import initial_weights
from nightjar.models.program import KeyboardProgram
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.wire.errors import ConfigError
from nightjar.wire.parameters import Vector

PARTS = ("train", "valid", "test")
CLIP_NORM = 1.0
RATES = (1.0, 3.0)
MODEL = "tiny-lstm"


class Text(NamedTuple):
    """Lines to train on, to choose settings on and to test on."""

    name: str
    train: list[str]
    valid: list[str]
    test: list[str]


def read_text(folder: Path | None, people: int, messages: int) -> Text:
    """The text of a folder, or that of invented people.

    Raises:
        ConfigError: the folder has not all three files.
    """
    if folder is None or not (folder / "ptb").is_dir():
        users = corpora.load("personas", 1, people=people, messages=messages).users
        lines = [line for own in users.values() for line in own]
        return Text(
            "personas",
            lines[: -len(lines) // 5],
            lines[-len(lines) // 5 : -len(lines) // 10],
            lines[-len(lines) // 10 :],
        )
    try:
        return Text("ptb", *((folder / "ptb" / f"{part}.txt").read_text("utf-8").splitlines() for part in PARTS))
    except OSError as error:
        msg = f"expected train.txt, valid.txt and test.txt in {folder / 'ptb'}: {error}"
        raise ConfigError(msg) from error


class LanguageModel:
    """A model, its text, and the training of devices, one after another in this process.

    Args:
        text: the lines.
        size: most words of the vocabulary; None for as many as the model takes.
    """

    def __init__(self, text: Text, size: int | None) -> None:
        self.shape: ModelConfiguration = configuration(MODEL)
        self._vocabulary = Vocabulary.build(text.train, size or self.shape.max_vocabulary)
        self.train = self._ids(text.train)
        self.valid, self.test = (self._packed(self._ids(part)) for part in (text.valid, text.test))
        self._program = KeyboardProgram(self.shape, self._vocabulary.size)
        self._step: Any = self._program.traced("train")

    def start(self, seed: int) -> Vector:
        """Random weights."""
        return initial_weights(self.shape, self._vocabulary.size, seed)

    def parts(self, devices: int) -> list[Batches]:
        """The training text in as many pieces, in its order."""
        cuts = [len(self.train) * number // devices for number in range(devices + 1)]
        return [self._packed(self.train[begin:end]) for begin, end in pairwise(cuts)]

    def part(self, lines: Sequence[str]) -> Batches:
        """A device's text."""
        return self._packed(self._ids(lines))

    def epoch(self, weights: Vector, batches: Batches, rate: float) -> Vector:
        """The weights of a device after an epoch."""
        self._program.restore(tf.constant(weights))
        for x, y in batches:
            self._step(tf.constant(x), tf.constant(y), tf.constant(rate), tf.constant(CLIP_NORM))
        return np.array(self._program.save()["weights"], np.float32)

    def perplexity(self, weights: Vector, batches: Batches) -> float:
        """Exp of the mean loss."""
        return math.exp(evaluate(weights, self.shape, self._vocabulary.size, batches).loss)

    def federated(
        self, parts: Sequence[Batches], rounds: int, rate: float, seed: int, cohort: int | None = None
    ) -> list[tuple[float, float]]:
        """The perplexity on the test text after each round of all devices, or of a cohort; one is one place."""
        weights, drawing = self.start(seed), np.random.default_rng(seed)
        curve = [(0.0, self.perplexity(weights, self.test))]
        for number in range(rounds):
            chosen = drawing.choice(len(parts), min(cohort or len(parts), len(parts)), replace=False)
            mine = [parts[each] for each in sorted(chosen.tolist())]
            trained = [self.epoch(weights, part, rate) for part in mine]
            shares = np.array([part.targets for part in mine], np.float64)
            weights = np.average(trained, axis=0, weights=shares).astype(np.float32)
            curve.append((number + 1.0, self.perplexity(weights, self.test)))
        return curve

    def best_rate(self, seed: int) -> float:
        """The rate with the least perplexity on the validation text after an epoch in one place."""
        (whole,) = self.parts(1)
        return min(RATES, key=lambda rate: self.perplexity(self.epoch(self.start(seed), whole, rate), self.valid))

    def _ids(self, lines: Sequence[str]) -> list[list[int]]:
        return [ids for line in lines if (ids := self._vocabulary.encode(words(line)))]

    def _packed(self, messages: Sequence[Sequence[int]]) -> Batches:
        return pack(messages, self.shape.batch_rows, self.shape.sequence_length)


def run(request: Request) -> list[ResultRow]:
    """Perplexity of a federated LSTM by rounds and number of devices, beside training in one place."""
    text = read_text(request.data, request.pick(4, 40, 100), request.pick(20, 60, 100))
    federation = LanguageModel(text, request.pick(200, None, None))
    rounds, seeds = request.pick(1, 8, 30), request.pick([1], [1, 2], [1, 2, 3])
    rate = RATES[-1] if request.form.value == "smoke" else federation.best_rate(seeds[0])
    pooled = [federation.federated(federation.parts(1), rounds, rate, seed) for seed in seeds]
    found = []
    for devices in request.pick((2,), (2, 5, 10), (2, 5, 10, 50)):
        curves = [federation.federated(federation.parts(devices), rounds, rate, seed) for seed in seeds]
        found.append(
            row(
                request,
                f"LSTM language model, {text.name}, {devices} devices",
                [curve[-1][1] for curve in curves],
                seeds=seeds,
                pooled=float(np.mean([curve[-1][1] for curve in pooled])),
                measure="perplexity",
                figures={
                    "rate": rate,
                    "rounds": float(rounds),
                    "words to train on": float(federation.parts(1)[0].targets),
                },
                curves={f"{devices} devices": curves[0], "one place": pooled[0]},
                axes=("round", "perplexity"),
            )
        )
    return found


main = page_command("language_model", run)

if __name__ == "__main__":
    main()
