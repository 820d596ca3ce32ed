"""What desktop programs may ask the suggester, one JSON object a line (docs/suggester.md), and the answers.

Input that is no request is answered by an error in words. Typed text is in no error and no log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from nightjar.edge_agent.keyboard.sending import Sending, Store
from nightjar.edge_agent.keyboard.suggestions import Suggester, Suggestions
from nightjar.models.vocabulary import MAX_WORD_CHARACTERS
from nightjar.wire.errors import NightjarError

MAX_TEXT_CHARACTERS = 2_000
MAX_LINE_BYTES = 13 * MAX_TEXT_CHARACTERS
"""JSON takes up to twelve bytes for a character; no longer line holds a request."""
MOST_WORDS = 10
MOST_PROGRAMS = 100
"""Programs that are counted by name; the messages of any more are counted together."""
OTHERS = "others"

Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARACTERS)]
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_WORD_CHARACTERS)]
Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_WORDS)]
Language = Annotated[str, msgspec.Meta(max_length=35)]
Program = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class Suggest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="suggest"):
    """Words after the text before the cursor; with a partial word, what may be meant by it."""

    text: Text
    partial: Text = ""
    count: Count = 3
    language: Language = ""


class Complete(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="complete"):
    """Words that begin with a partial word."""

    partial: Word
    text: Text = ""
    count: Count = 3
    language: Language = ""


class Correct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="correct"):
    """The word that a whole word is meant to be; the same if nothing is wrong with it."""

    word: Word
    text: Text = ""
    language: Language = ""


class Learn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="learn"):
    """Learn from a message that was sent in a program."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT_CHARACTERS)]
    program: Program
    language: Language = ""


class Pause(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="pause"):
    """Pause or resume learning."""

    paused: bool


class GetStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="status"):
    """What the suggester has and stores, in numbers."""


Request = Suggest | Complete | Correct | Learn | Pause | GetStatus


class Words(msgspec.Struct, frozen=True):
    """Answer to ``suggest`` and ``complete``.

    Attributes:
        version: version of the model that chose them; None without one.
        reason: what is wrong, in words; empty if nothing is.
        prefix: the end of the text, which the words replace; empty if they are appended.
        space_takes: whether the first word is the correction of the prefix.
    """

    words: tuple[str, ...]
    version: int | None
    reason: str
    prefix: str = ""
    space_takes: bool = False


class Corrected(msgspec.Struct, frozen=True):
    """Answer to ``correct``."""

    word: str
    changed: bool


class Learned(msgspec.Struct, frozen=True):
    """Answer to ``learn``: whether the message was kept, and why not."""

    kept: bool
    reason: str


class LearningPaused(msgspec.Struct, frozen=True):
    """Answer to ``pause``."""

    paused: bool


class SuggesterStatus(msgspec.Struct, frozen=True):
    """Answer to ``status``.

    Attributes:
        learned: messages that were kept since the suggester was started, by program.
    """

    version: int | None
    stored: int
    own_words: int
    paused: bool
    learned: dict[str, int]


class RequestError(msgspec.Struct, frozen=True):
    """Answer to what cannot be answered: why, in words, and a code for programs."""

    error: str
    code: str


Answer = Words | Corrected | Learned | LearningPaused | SuggesterStatus | RequestError

_REQUESTS = msgspec.json.Decoder(Request)


@dataclass(frozen=True, slots=True)
class Requests:
    """Answers requests. Thread-safe if the store is.

    Attributes:
        on_typing: called whenever somebody types.
    """

    suggester: Suggester
    store: Store
    sending: Sending
    on_typing: Callable[[], None] = lambda: None
    learned: Counter[str] = field(default_factory=Counter)

    def answer(self, line: bytes) -> Answer:
        """The answer to a line, without its end."""
        try:
            request = _REQUESTS.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return RequestError(f"expected a request of docs/suggester.md, got: {_without_value(error)}", "request")
        try:
            return self._answer(request)
        except NightjarError as error:
            return RequestError(str(error), error.code)
        except Exception as error:  # its text may quote what was typed, and another request may succeed
            return RequestError(f"unforeseen {type(error).__name__}", "internal")

    def _answer(self, request: Request) -> Answer:
        match request:
            case Suggest(text, partial, count, language):
                return _words(self._suggest(text + partial, count, language), count)
            case Complete(partial, text, count, language):
                found = self._suggest(text + partial, MOST_WORDS, language)
                begins = partial.lower()
                words = tuple(word for word in found.words if word.lower().startswith(begins))
                return Words(words[:count], found.version, found.reason, found.prefix)
            case Correct(word, text, language):
                found = self._suggest(text + word, 1, language)
                meant = found.words[0] if found.space_takes and found.prefix == word else word
                return Corrected(meant, meant != word)
            case Learn(text, program, language):
                became = self.sending.send(text, language)
                if became.kept:
                    self.learned[program if program in self.learned or self._room else OTHERS] += 1
                return Learned(became.kept, became.reason)
            case Pause(paused):
                self.store.pause_learning(paused=paused)
                return LearningPaused(self.store.learning_paused())
            case GetStatus():
                return SuggesterStatus(
                    self.suggester.version,
                    self.store.count(),
                    self.suggester.own_words,
                    self.store.learning_paused(),
                    dict(self.learned),
                )

    @property
    def _room(self) -> bool:
        return len(self.learned) < MOST_PROGRAMS

    def _suggest(self, text: str, count: int, language: str) -> Suggestions:
        self.on_typing()
        return self.suggester.suggest(text[-MAX_TEXT_CHARACTERS:], count, language)


def _words(found: Suggestions, count: int) -> Words:
    return Words(found.words[:count], found.version, found.reason, found.prefix, found.space_takes)


def _without_value(error: Exception) -> str:
    return 'another "do"' if str(error).startswith("Invalid value") else str(error)[:200]
