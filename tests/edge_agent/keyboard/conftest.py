"""A model and a store small enough to reason about, and the keyboard served with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from edge_agent.keyboard.app import About, create_app
from edge_agent.keyboard.server import Serving, serve
from edge_agent.keyboard.suggestions import Scores, Suggester
from models.vocabulary import FIRST_WORD, Vocabulary
from wire.errors import UnavailableError

# "<s>" stands for the start of a sentence.
FOLLOWERS = {
    "<s>": ["hello", "how", "i'm"],
    "hello": ["there", "world", "how"],
    "how": ["are", "is", "about"],
    "are": ["you", "they", "we"],
    "you": ["today", "there", "now"],
    "good": ["morning", "evening", "day"],
    "<oov>": ["said", "is", "are"],
}
OTHER_WORDS = ["good", "help", "helmet", "howl", "12", "o'clock"]
WORDS = tuple(dict.fromkeys([*(word for words in FOLLOWERS.values() for word in words), *OTHER_WORDS]))


@dataclass
class BigramModel:
    """Scores a fixed list of followers of the last token; counts its steps."""

    version: int = 7
    followers: dict[str, list[str]] = field(default_factory=lambda: FOLLOWERS)
    vocabulary: Vocabulary = field(default_factory=lambda: Vocabulary(WORDS))
    tokens: list[int] = field(default_factory=list)

    def start(self) -> tuple[int, ...]:
        return ()

    def step(self, token: int, state: tuple[int, ...]) -> tuple[Scores, tuple[int, ...]]:
        self.tokens.append(token)
        scores = np.zeros(self.vocabulary.size, np.float32)
        scores[:FIRST_WORD] = -1e9
        last = {1: "<s>", 3: "<oov>"}.get(token) or self.vocabulary.word(token)
        for rank, word in enumerate(self.followers.get(last, [])):
            scores[self.vocabulary.id_of(word)] = 10.0 - rank
        return scores, (*state, token)


@dataclass
class ListStore:
    """An example store in memory, which can be full."""

    texts: list[str] = field(default_factory=list)
    full: bool = False

    def add(self, text: str) -> None:
        if self.full:
            raise UnavailableError("the disk is full; free some space")
        self.texts.append(text)

    def count(self) -> int:
        return len(self.texts)


@dataclass
class Bench:
    """A keyboard and everything a test may look at or change."""

    model: BigramModel
    suggester: Suggester[tuple[int, ...]]
    store: ListStore
    about: About

    def train(self) -> None:
        self.about = replace(self.about, last_trained_at_s=1_750_000_000.0, last_report_bytes=12_345)


@pytest.fixture
def bench() -> Bench:
    model = BigramModel()
    about = About("phone-03", emulated=True, state="training", reason="selected for round 4")
    return Bench(model, Suggester(model), ListStore(), about)


@pytest.fixture
def served(bench: Bench) -> Iterator[Serving]:
    serving = serve(create_app(bench.suggester, bench.store, lambda: bench.about), "127.0.0.1", 0)
    yield serving
    serving.close()
