"""What becomes of a sent message: it is stored as an example and learned from, or it is not, with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nightjar.edge_agent.core.exclusion import Secret
from nightjar.edge_agent.keyboard.learning import LEARNED_FROM, OwnWord, own_words_in
from nightjar.edge_agent.keyboard.recall import RecallCount
from nightjar.edge_agent.keyboard.suggestions import Suggester
from nightjar.models.vocabulary import words

PAUSED = "Not kept: learning is paused."
NOTHING_LEFT = "Not kept: there is nothing in it but figures and links."
RULES = {
    Secret.EMAIL: "an address is in it",
    Secret.CARD: "a card number is in it",
    Secret.IBAN: "an account number is in it",
    Secret.TOKEN_LINK: "a link in it may carry a key",
    Secret.LONG_NUMBER: "a long number is in it",
    Secret.PASSWORD: "something in it looks like a password or a key",
    Secret.NAMED: "a password, PIN or token stands after its name",
    Secret.SEED_PHRASE: "it looks like the words of a wallet",
    Secret.FORBIDDEN: "a word is in it that is never kept on this device",
}
"""Why a message is not kept, for the user."""


class Store(Protocol):
    """The device's store of typed text."""

    def add(self, text: str, *, anyway: bool = False) -> str:
        """Store the permitted part of a sent message and return it; empty if nothing was stored.

        ``anyway`` stores a message though a rule found a secret in it.
        """

    def refusal(self, text: str) -> Secret | None:
        """Which rule keeps a message from being stored; None if none does."""

    def count(self) -> int:
        """Number of stored messages."""

    def size_bytes(self) -> int:
        """Total size of the stored messages in UTF-8 bytes."""

    def learning_paused(self) -> bool:
        """Whether the user has paused learning."""

    def pause_learning(self, *, paused: bool) -> None:
        """Pause or resume learning."""

    def note_own_words(self, typed: Sequence[tuple[str, str]]) -> None:
        """Count words outside the vocabulary: each given in lower case and as it was typed."""

    def own_words(self) -> list[OwnWord]:
        """The words that were typed; forgotten ones have a count of 0."""

    def forget_own_word(self, word: str, *, offered_anyway: bool) -> None:
        """Delete a word, in lower case; one that is offered anyway stays as forgotten."""

    def note_recall(self, version: int, words: int, top1: int, top3: int) -> None:
        """Record how many words of a message were predicted by a version of the model; version 0 means no model."""

    def recall(self) -> list[RecallCount]:
        """The prediction counts of each message, oldest first."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a message.

    Attributes:
        kept: whether it was stored.
        reason: why it was not, for the person.
        rule: the rule that it broke, if the person may keep it all the same; else empty.
    """

    kept: bool
    reason: str = ""
    rule: str = ""


class Sending:
    """Stores sent messages, and lets the keyboard learn from them. Thread-safe if the store is."""

    def __init__(self, suggester: Suggester, store: Store) -> None:
        self._suggester, self._store = suggester, store

    def send(self, text: str, language: str = "", *, anyway: bool = False) -> Sent:
        """Store a message that is not empty; ``anyway`` says that the person wants it kept though a rule forbids it.

        Raises:
            UnavailableError: it could not be written.
        """
        suggester, store = self._suggester, self._store
        if store.learning_paused():
            return Sent(False, PAUSED)
        foreseen = suggester.recall(text, language)
        kept = store.add(text, anyway=anyway)
        if not kept:
            rule = store.refusal(text)
            reason = NOTHING_LEFT if rule is None else f"Not kept: {RULES[rule]}."
            return Sent(False, reason, "" if rule in (None, Secret.FORBIDDEN) else rule.name)
        if foreseen.words:
            store.note_recall(suggester.version or 0, *foreseen)
        self._learn(kept)
        return Sent(True)

    def take_in(self, line: str) -> bool:
        """Store a line of a file of the person's; one word is a word to learn. Whether it was kept.

        Raises:
            UnavailableError: it could not be written.
        """
        kept = self._store.add(line) if line.strip() else ""
        if kept:
            self._learn(kept, listed=len(words(kept)) == 1)
        return bool(kept)

    def _learn(self, kept: str, *, listed: bool = False) -> None:
        """Learn from a message; ``listed`` says that it is one word of a list, which is written as it is meant."""
        suggester, store = self._suggester, self._store
        suggester.learn(kept)
        own = own_words_in(kept, lambda word: not suggester.needs_counting(word), begins=not listed)
        if own:
            store.note_own_words(own * (LEARNED_FROM if listed else 1))
            suggester.replace_own_words(store.own_words())
