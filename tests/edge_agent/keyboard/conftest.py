"""A model and a store small enough to reason about, and the keyboard served with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from flask import Flask

from nightjar.edge_agent.core.exclusion import Secret
from nightjar.edge_agent.keyboard.app import AgentInfo, create_app
from nightjar.edge_agent.keyboard.comparison import Comparison, compare
from nightjar.edge_agent.keyboard.learning import OwnWord
from nightjar.edge_agent.keyboard.reader import Reader
from nightjar.edge_agent.keyboard.recall import RecallCount
from nightjar.edge_agent.keyboard.server import Serving
from nightjar.edge_agent.keyboard.suggestions import Suggester
from nightjar.edge_agent.shell.suggester import page_listener
from nightjar.models.lexicon import WordList, read_lexicon, write_lexicon
from nightjar.models.vocabulary import FIRST_WORD, Vocabulary
from nightjar.wire.errors import UnavailableError
from tests.browser import Watched, chromium  # noqa: F401 - a fixture
from tests.edge_agent.keyboard.screen import DESKTOP, Screen

PAGE_KEY = "the-key-of-this-page"

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

    def step(self, token: int, state: tuple[int, ...]) -> tuple[np.ndarray, tuple[int, ...]]:
        self.tokens.append(token)
        scores = np.full(self.vocabulary.size, 3.0, np.float32)
        scores[:FIRST_WORD] = -1e9
        last = {1: "<s>", 3: "<oov>"}.get(token) or self.vocabulary.word(token)
        for rank, word in enumerate(self.followers.get(last, [])):
            scores[self.vocabulary.id_of(word)] = 10.0 - rank
        return scores, (*state, token)


@dataclass
class ListStore:
    """A store in memory, which can be full."""

    texts: list[str] = field(default_factory=list)
    full: bool = False
    paused: bool = False
    typed: list[tuple[str, str]] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    counts: list[RecallCount] = field(default_factory=list)

    def refusal(self, text: str) -> Secret | None:
        return Secret.EMAIL if "@" in text else None

    def forget_own_word(self, word: str, *, offered_anyway: bool) -> None:
        self.typed = [one for one in self.typed if one[0] != word]
        self.forgotten = [*self.forgotten, word] if offered_anyway else self.forgotten

    def add(self, text: str, *, anyway: bool = False) -> str:
        if self.full:
            raise UnavailableError("the disk is full; free some space")
        kept = "" if "@" in text and not anyway else text.replace("secret", "")
        self.texts += [kept] if kept else []
        return kept

    def count(self) -> int:
        return len(self.texts)

    def size_bytes(self) -> int:
        return sum(len(text.encode()) for text in self.texts)

    def learning_paused(self) -> bool:
        return self.paused

    def pause_learning(self, *, paused: bool) -> None:
        self.paused = paused

    def note_own_words(self, typed: Sequence[tuple[str, str]]) -> None:
        self.typed += typed

    def own_words(self) -> list[OwnWord]:
        counts = Counter(word for word, _ in self.typed)
        forgotten = [OwnWord(word, word, 0) for word in self.forgotten if word not in counts]
        return forgotten + [OwnWord(word, dict(self.typed)[word], count) for word, count in counts.items() if count > 1]

    def note_recall(self, version: int, words: int, top1: int, top3: int) -> None:
        self.counts.append(RecallCount(1.7e9 + 60 * len(self.counts), version, words, top1, top3))

    def recall(self) -> list[RecallCount]:
        return self.counts

    def wipe(self) -> None:
        if self.full:
            raise UnavailableError("the agent is busy")
        self.texts, self.typed, self.counts = [], [], []


LISTED = read_lexicon(
    write_lexicon(
        "en",
        dict.fromkeys(WORDS, 1e-4)
        | {"receive": 1e-3, "kate": 1e-5, "late": 1e-4, "wont": 1e-6, "hello": 1e-3, "help": 1e-3},
    )
)


def lexicon(language: str) -> WordList | None:
    """Of English, a few words."""
    return LISTED if language == "en" else None


@dataclass
class Bench:
    """A keyboard and everything a test may look at or change."""

    model: BigramModel
    suggester: Suggester
    store: ListStore
    about: AgentInfo
    keys_noted: int = 0

    def train(self) -> None:
        self.about = replace(self.about, last_trained_at_s=1_750_000_000.0, last_report_bytes=12_345)

    def use(self, **changes: object) -> BigramModel:
        """Another model from now on; words of another kind have no lexicon."""
        model = BigramModel(**changes)
        self.suggester.replace_predictor(Reader(model), (lambda _: None) if "vocabulary" in changes else lexicon)
        return model

    def note_typing(self) -> None:
        self.keys_noted += 1

    def wipe(self) -> None:
        self.store.wipe()
        self.suggester.replace_own_words(())

    def app(self) -> Flask:
        return create_app(
            self.suggester, self.store, lambda: self.about, self.wipe, PAGE_KEY, self.note_typing, self.compared
        )

    def compared(self) -> Comparison:
        """An earlier model, which knows no followers, beside the one in use."""
        before = BigramModel(version=0, followers={})
        return compare(Reader(before), Reader(self.model), self.store.texts)


@pytest.fixture
def bench() -> Bench:
    model = BigramModel()
    about = AgentInfo(device="phone-03", emulated=True, state="training", reason="selected for round 4")
    return Bench(model, Suggester(Reader(model), lexicon=lexicon), ListStore(), about)


@pytest.fixture
def served(bench: Bench) -> Iterator[Serving]:
    serving = Serving(bench.app(), page_listener(0))
    yield serving
    serving.close()


# --- headless Chromium ---


@pytest.fixture
def open_page(chromium, served):  # noqa: F811 - the fixture
    """Opens the keyboard; fails the test if the page logs an error or asks another host for anything.

    A test that takes the agent away says in ``open_page.expected`` which errors a browser then logs, until the end.
    """
    watched = Watched(chromium)

    def open_(viewport=DESKTOP, words=("Hello", "How", "I'm"), key=PAGE_KEY, **options):
        page = watched.page(served.url, **{"viewport": viewport, "locale": "en-GB"} | options)
        page.goto(f"{served.url}#key={key}" if key else served.url)
        screen = Screen(page)
        if words:
            screen.wait_for_words(words)
        return screen

    open_.expected = watched.expected
    yield open_
    watched.close()
