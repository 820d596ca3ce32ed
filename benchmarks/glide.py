"""Measures glide typing of the most frequent English words: accuracy and latency.

Glides are synthetic, on the layout of :mod:`nightjar.edge_agent.keyboard.correction`: straight lines between key
centres, a point every quarter of a key, Gaussian error of a quarter key in both directions, and corners smoothed by a
moving average over five points. The error is added to each point (``points``) or to each target key (``keys``); the
latter is harder, because whole segments are off. The suggester has the lexicon of 100,000 words and, instead of a
model, the unigram of the 10,000 most frequent ones; there are no words before the glide. Words on a single key are
skipped. A word with the same keys (``to`` for ``too``) counts as wrong.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import click
import numpy as np

import nightjar.host.one_thread  # noqa: F401 - as in the agent's process
from nightjar.benchmarks.measuring import quantile, show
from nightjar.edge_agent.keyboard.common_words import Unigram
from nightjar.edge_agent.keyboard.correction import key_centres
from nightjar.edge_agent.keyboard.suggestions import Suggester
from nightjar.edge_agent.ports import Floats
from nightjar.models.lexicon import fold, read_lexicon
from nightjar.models.vocabulary import Vocabulary
from nightjar.models.word_lists import compiled

TITLE = "glides over the keys of a word"
LANGUAGE = "en"
VOCABULARY = 10_000
ERROR = 0.25
"""Standard deviation in each direction, and the distance between points, in key widths."""


def glide(word: str, error: str, generator: np.random.Generator) -> Floats:
    """The line of a glide over a word, (n, 2) float32, in key widths; ``error`` is added to ``points`` or to ``keys``.

    The word's letters have keys, at least two distinct ones.
    """
    keys = key_centres(LANGUAGE)
    corners = np.array([keys[letter] for letter in fold(word)])
    if error == "keys":
        corners += generator.normal(0, ERROR, corners.shape)
    along = np.append(0, np.hypot(*np.diff(corners, axis=0).T).cumsum())
    places = np.linspace(0, along[-1], max(2, round(along[-1] / ERROR) + 1))
    line = np.stack([np.interp(places, along, corners[:, axis]) for axis in (0, 1)], axis=1)
    if error == "points":
        line += generator.normal(0, ERROR, line.shape)
    wide = np.pad(line, ((2, 2), (0, 0)), mode="edge")
    line[1:-1] = np.stack([np.convolve(wide[:, axis], np.full(5, 0.2), "valid") for axis in (0, 1)], axis=1)[1:-1]
    return line.astype(np.float32)


def measure(words: int, seed: int) -> list[dict[str, Any]]:
    """A row for each kind of error, from a glide for each of the most frequent words."""
    lexicon = read_lexicon(compiled(LANGUAGE))
    listed = lexicon.text.decode().split()
    keys = key_centres(LANGUAGE)
    common = [listed[at] for at in np.argsort(-lexicon.log_shares, kind="stable").tolist()]
    glided = [word for word in common if len({*fold(word)}) > 1 and keys.keys() >= {*fold(word)}][:words]
    suggester = Suggester(Unigram(Vocabulary(tuple(common[:VOCABULARY]))), lexicon=lambda _: lexicon)
    rows = []
    for error in ("points", "keys"):
        generator = np.random.default_rng(seed)
        first = three = 0
        times, processor_ms = [], []
        suggester.glide("", [keys["a"], keys["b"]], keys, language=LANGUAGE)  # builds the index
        for word in glided:
            points = [(x, y) for x, y in glide(word, error, generator).tolist()]
            begin_s, begin_processor_s = time.perf_counter(), time.thread_time()
            found = suggester.glide("", points, keys, language=LANGUAGE).words
            times.append((time.perf_counter() - begin_s) * 1e3)
            processor_ms.append((time.thread_time() - begin_processor_s) * 1e3)
            first, three = first + (word in found[:1]), three + (word in found[:3])
        rows.append(
            {
                "error": error,
                "words": len(glided),
                "first_share": first / len(glided),
                "three_share": three / len(glided),
                "p50_ms": median(times),
                "p99_ms": quantile(times, 0.99),
                "p99_processor_ms": quantile(processor_ms, 0.99),
            }
        )
    return rows


@click.command()
@click.option("--words", default=5_000, show_default=True, type=click.IntRange(1), help="Number of words.")
@click.option("--seed", default=7, show_default=True, type=click.IntRange(0, 2**31))
@click.option("--json", "as_json", is_flag=True)
def main(*, words: int, seed: int, as_json: bool) -> None:
    """Measure the accuracy and latency of glide typing."""
    show(TITLE, measure(words, seed), as_json=as_json, key="glide")


if __name__ == "__main__":
    main()
