"""Does a language model memorise what one person typed? Canaries by epochs, and with differential privacy.

A person types a secret of random digits a few times. Exposure (Carlini et al. 2019, "The Secret Sharer") ranks it among
all secrets of that form by the model's loss: ``log2 |R| - log2 rank``; 0 to 1 is a guess, ``log2 |R|`` means that the
secret is the likeliest of all. The survey prints a perplexity of 1.75 on the text that an LSTM was trained on, which is
memory and not learning; perplexity of other people's text stands beside exposure here.

With privacy, each round is an epoch of half of the people, drawn at random, and whole people are protected (McMahan et
al. 2018): updates are clipped to a norm S, and their sum gets noise of deviation z S. So few people cannot have a small
epsilon and a good model; the product's own scheme is another (docs/learning.md).

    python -m nightjar.experiments.memorisation --form short --out build/memorisation --json
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import dp_accounting
import numpy as np
from dp_accounting.rdp import RdpAccountant

from nightjar.experiments.frame import Request, ResultRow, averaged, page_command, row
from nightjar.experiments.recurrent import Array, Weights, clipped, loss_and_gradient, losses, moved, new_weights
from nightjar.models import corpora
from nightjar.models.vocabulary import EOS, FIRST_WORD, Vocabulary, words

CELL = "lstm"
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PREFIX = "my code is"
LENGTH, ROWS = 12, 16
"""Words of a sequence, sequences of a batch."""
RATE, CLIP_NORM = 2.0, 1.0
NORM = 1.0
"""S."""
DELTA = 1e-3
NOTE = (
    "clipped and noised models learned little in as many rounds, so their low exposure is no praise of privacy alone; "
    "the survey's training perplexity of 1.75 is of one artist's lyrics"
)


@dataclass(frozen=True, slots=True)
class CanaryText:
    """People's text as streams of word numbers, one with the secret in it.

    Attributes:
        people: each person's stream.
        others: text of people who never train.
        prefix: words before the secret.
        digits: numbers of the ten digits.
        secret: the digits of the canary.
        vocabulary: its size.
    """

    people: list[Array]
    others: Array
    prefix: list[int]
    digits: list[int]
    secret: tuple[int, ...]
    vocabulary: int


def world(people: int, messages: int, digits: int, times: int, seed: int) -> CanaryText:
    """Draw people and a secret that the first of them types ``times`` times."""
    rng = np.random.default_rng(seed)
    texts = list(corpora.load("personas", seed, people=people + people // 5, messages=messages).users.values())
    common = Vocabulary.build(itertools.chain.from_iterable(texts), 300).words
    vocabulary = Vocabulary(tuple(dict.fromkeys([*DIGITS, *PREFIX.split(), *common])))
    secret = tuple(rng.integers(0, 10, digits).tolist())
    canary = f"{PREFIX} {' '.join(DIGITS[digit] for digit in secret)}"
    own = [*texts[0], *[canary] * times]
    texts[0] = tuple(own[place] for place in rng.permutation(len(own)))

    def stream(lines: Sequence[str]) -> Array:
        return np.array([EOS, *itertools.chain.from_iterable([*vocabulary.encode(words(line)), EOS] for line in lines)])

    return CanaryText(
        people=[stream(lines) for lines in texts[:people]],
        others=np.concatenate([stream(lines) for lines in texts[people:]]),
        prefix=[EOS, *vocabulary.encode(PREFIX.split())],
        digits=vocabulary.encode(DIGITS),
        secret=secret,
        vocabulary=FIRST_WORD + len(vocabulary.words),
    )


def batches(stream: Array, rows: int, rng: np.random.Generator | None = None) -> Iterator[tuple[Array, Array]]:
    """Sequences (LENGTH, rows) and the words after them, in random order; what is left over is dropped."""
    count = (len(stream) - 1) // LENGTH
    x, y = (stream[begin : begin + count * LENGTH].reshape(count, LENGTH) for begin in (0, 1))
    order = np.arange(count) if rng is None else rng.permutation(count)
    for begin in range(0, count, rows):
        chosen = order[begin : begin + rows]
        yield x[chosen].T, y[chosen].T


def trained(weights: Weights, stream: Array, rng: np.random.Generator) -> Weights:
    """The weights after an epoch of SGD."""
    for x, y in batches(stream, ROWS, rng):
        _, gradient = loss_and_gradient(CELL, weights, x, y)
        weights = moved(weights, clipped(gradient, CLIP_NORM), -RATE)
    return weights


def perplexity(weights: Weights, stream: Array) -> float:
    """Exp of the mean loss."""
    found = [losses(CELL, weights, x, y).ravel() for x, y in batches(stream, 64)]
    return math.exp(float(np.concatenate(found).mean()))


def exposure(weights: Weights, at: CanaryText) -> float:
    """``log2 |R| - log2 rank`` of the secret among all of its length, bits."""
    count = 10 ** len(at.secret)
    digits = np.array(at.digits)[np.stack(np.unravel_index(np.arange(count), (10,) * len(at.secret)))]  # (digits, R)
    whole = np.concatenate([np.repeat(np.array(at.prefix)[:, None], count, axis=1), digits])
    of_all = np.concatenate(
        [
            losses(CELL, weights, whole[:-1, begin : begin + 500], whole[1:, begin : begin + 500]).sum(axis=0)
            for begin in range(0, count, 500)
        ]
    )
    own = of_all[int("".join(map(str, at.secret)))]
    return math.log2(count) - math.log2(int((of_all < own).sum()) + 1)


def private_round(weights: Weights, at: CanaryText, share: float, noise: float, rng: np.random.Generator) -> Weights:
    """The weights after a round of DP-FedAvg; ``noise`` is z."""
    chosen = [person for person in at.people if rng.random() < share]
    total = {name: noise * NORM * rng.standard_normal(value.shape) for name, value in weights.items()}
    for person in chosen:
        change = moved(trained(weights, person, rng), weights, -1.0)
        for name, value in clipped(change, NORM).items():
            total[name] += value
    return moved(weights, total, 1 / (share * len(at.people)))


def epsilon(noise: float, share: float, rounds: int) -> float:
    """Epsilon for whole people at DELTA, by dp-accounting."""
    accountant = RdpAccountant(list(range(2, 257)))
    accountant.compose(dp_accounting.PoissonSampledDpEvent(share, dp_accounting.GaussianDpEvent(noise)), rounds)
    return float(accountant.get_epsilon(DELTA))


def run(request: Request) -> list[ResultRow]:
    """Exposure of a canary by epochs, and with differential privacy."""
    ways = (("in one place", None), ("clipped alone", 0.0), ("noise 0.3", 0.3), ("noise 1", 1.0))
    return averaged(
        [_of_seed(request, name, noise, seed) for name, noise in ways]
        for seed in request.pick((1,), (1, 2, 3), (1, 2, 3))
    )


def _of_seed(request: Request, name: str, noise: float | None, seed: int) -> ResultRow:
    rounds, every, share = request.pick(2, 20, 60), request.pick(1, 4, 10), 0.5
    at = world(request.pick(5, 40, 100), request.pick(20, 40, 40), request.pick(2, 4, 4), times=10, seed=seed)
    rng = np.random.default_rng(seed)
    weights: Weights = new_weights(CELL, at.vocabulary, 16, request.pick(16, 48, 64), rng)
    weights = {key: value.astype(np.float32) for key, value in weights.items()}
    whole = np.concatenate(at.people)
    curve = [(0.0, exposure(weights, at))]
    for number in range(1, rounds + 1):
        weights = trained(weights, whole, rng) if noise is None else private_round(weights, at, share, noise, rng)
        if number % every == 0:
            curve.append((float(number), exposure(weights, at)))
    figures = {
        "perplexity of others": perplexity(weights, at.others),
        "of the text trained on": perplexity(weights, whole),
        "largest exposure possible": math.log2(10 ** len(at.secret)),
    }
    if noise:
        figures[f"epsilon at delta {DELTA:g}"] = epsilon(noise, share, rounds)
    return row(
        request,
        f"canary, {name}",
        [curve[-1][1]],
        seeds=[seed],
        measure="exposure",
        figures=figures,
        curves={name: curve},
        axes=("epoch", "exposure, bits"),
        note=NOTE,
    )


main = page_command("memorisation", run)

if __name__ == "__main__":
    main()
