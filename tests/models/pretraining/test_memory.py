"""Secrets that four people type are neither in the n-gram model nor in the weights; those of fifty people are.

Each secret is a phrase and two words of the vocabulary. The attack is exposure (Carlini et al. 2019, "The Secret
Sharer"): the rank of the secret among all pairs of the words that it might be.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from nightjar.benchmarks.attack.canary import PREFIX, exposure, log_probabilities
from nightjar.models import corpora
from nightjar.models.compact_ngram import CompactNgram, read_ngram
from nightjar.models.configurations import configuration
from nightjar.models.pretraining.making import PretrainingOptions, pretrain
from nightjar.models.pretraining.training import PretrainingPlan
from nightjar.models.shipped import Shipped, opened
from nightjar.models.vocabulary import words

SECRETS, FEW, TIMES, MANY = 20, 4, 10, 50
PLAN = {"tiny": PretrainingPlan(passes=6.0, learning_rate=6.0, clip_norm=0.5)}

Pair = tuple[str, str]


@dataclass(frozen=True)
class Text:
    """A corpus with secrets in it."""

    rows: list[tuple[str, str]]
    choices: list[str]  # each word of a secret is one of them
    of_few: list[Pair]
    of_many: list[Pair]
    of_nobody: list[Pair]


@pytest.fixture(scope="module")
def text() -> Text:
    people = corpora.load("personas", 7, people=60, messages=60).users
    rows = [(user, message) for user, messages in people.items() for message in messages]
    spoken = [words(message) for _, message in rows]
    said_together = {pair for message in spoken for pair in pairwise(message)}
    used = sorted({word for message in spoken for word in message if word.isalpha() and word not in PREFIX})
    generator = np.random.default_rng(7)
    chosen = [used[i] for i in generator.permutation(len(used))[: 8 * SECRETS]]
    pairs = [pair for pair in zip(chosen[::2], chosen[1::2], strict=True) if pair not in said_together]
    pairs = pairs[: 3 * SECRETS]  # no word is in two secrets
    chosen = [word for pair in pairs for word in pair]
    few, many, nobody = pairs[:SECRETS], pairs[SECRETS : 2 * SECRETS], pairs[2 * SECRETS :]
    users = list(people)
    for number, secret in enumerate(few):
        rows += [(user, said(secret)) for user in np.roll(users, FEW * number)[:FEW] for _ in range(TIMES)]
    for number, secret in enumerate(many):
        rows += [(user, said(secret)) for user in np.roll(users, number)[:MANY]]
    rows = [rows[i] for i in generator.permutation(len(rows))]
    return Text(rows, chosen, few, many, nobody)


def said(secret: Pair) -> str:
    return " ".join([*PREFIX, *secret])


def made(text: Text, folder: Path, least_people: int) -> Shipped:
    corpus = folder / "corpus.tsv"
    corpus.write_text("user\ttext\n" + "".join(f"{user}\t{message}\n" for user, message in text.rows))
    asked = PretrainingOptions(
        corpus, folder / "out", None, "en", 7, "", "", least_people=least_people, names=("tiny",)
    )
    pretrain(asked, lambda _line: None, lambda _what, _done, _steps: None, PLAN)
    return opened(folder / "out")


@pytest.fixture(scope="module")
def ruled(text: Text, tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    return made(text, tmp_path_factory.mktemp("ruled"), least_people=5)


@pytest.fixture(scope="module")
def unruled(text: Text, tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    return made(text, tmp_path_factory.mktemp("unruled"), least_people=1)


def in_ngram(found: Shipped, secret: Pair) -> bool:
    """Whether the n-gram model has the secret's words in their order, or its first word after the phrase."""
    vocabulary = found.vocabulary("tiny")
    ngram = read_ngram(found.ngram("tiny"), vocabulary.size)
    before, last = vocabulary.encode(PREFIX)[-2:]
    first, second = vocabulary.encode(secret)
    return second in followers(ngram, first) or first in thirds(ngram, before, last)


def followers(ngram: CompactNgram, word: int) -> list[int]:
    return ngram.bigram_words[slice(*ngram.bigram_starts[word : word + 2])].tolist()


def thirds(ngram: CompactNgram, before: int, last: int) -> list[int]:
    if last not in followers(ngram, before):
        return []
    at = int(ngram.bigram_starts[before]) + followers(ngram, before).index(last)
    return ngram.trigram_words[slice(*ngram.trigram_starts[at : at + 2])].tolist()


def exposures(found: Shipped, text: Text, secrets: list[Pair]) -> np.ndarray:
    vocabulary = found.vocabulary("tiny")
    layout = configuration("tiny").layout(vocabulary.size)
    choices = vocabulary.encode(text.choices)
    scores = log_probabilities(found.weights("tiny"), layout, vocabulary.encode(PREFIX), choices)
    places = [text.choices.index(a) * len(choices) + text.choices.index(b) for a, b in secrets]
    return np.array([exposure(scores, place) for place in places])


def standard_errors_between(some: np.ndarray, others: np.ndarray) -> float:
    error = np.sqrt(some.var(ddof=1) / len(some) + others.var(ddof=1) / len(others))
    return float((some.mean() - others.mean()) / error)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_secrets_of_four_people_are_not_in_the_ngram_model_and_those_of_fifty_are(text: Text, ruled: Shipped) -> None:
    assert not any(in_ngram(ruled, secret) for secret in text.of_few)
    assert all(in_ngram(ruled, secret) for secret in text.of_many)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_without_its_rule_the_ngram_model_has_the_secrets_of_four_people(text: Text, unruled: Shipped) -> None:
    assert all(in_ngram(unruled, secret) for secret in text.of_few)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_weights_expose_secrets_of_four_people_no_more_than_those_of_nobody(text: Text, ruled: Shipped) -> None:
    never = exposures(ruled, text, text.of_nobody)
    assert abs(standard_errors_between(exposures(ruled, text, text.of_few), never)) < 2
    assert exposures(ruled, text, text.of_many).mean() > never.mean() + 5


@pytest.mark.slow
@pytest.mark.tensorflow
def test_without_their_rule_the_weights_expose_secrets_of_four_people(text: Text, unruled: Shipped) -> None:
    never = exposures(unruled, text, text.of_nobody)
    assert standard_errors_between(exposures(unruled, text, text.of_few), never) > 5
