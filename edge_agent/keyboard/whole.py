"""The whole keyboard of one user without its page: the suggestion engine with everything that it learned from messages.

It is what the page, a measurement on the device, and the benchmarks of keystrokes have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from nightjar.edge_agent.core.own_history import Blended
from nightjar.edge_agent.keyboard.learning import OwnWord, own_words_in
from nightjar.edge_agent.keyboard.suggestions import Suggester
from nightjar.edge_agent.ports import Predictor
from nightjar.models.lexicon import WordList


class WholeKeyboard:
    """A predictor with the user's history and own words, and the lexicon of the language.

    Args:
        predictor: what the history is blended with.
        typed: the user's messages, oldest first.
        lexicon: reads the lexicon of a language, given its ISO 639 code; it returns None if there is none.
        language: tag of the language that is typed; empty if nobody said which.
    """

    def __init__(
        self,
        predictor: Predictor,
        typed: Sequence[str] = (),
        lexicon: Callable[[str], WordList | None] = lambda _: None,
        language: str = "",
    ) -> None:
        self.suggester, self._language = Suggester(Blended(predictor, typed), lexicon=lexicon), language
        self._own: Counter[str] = Counter()
        self._note(typed)

    def replace_predictor(self, predictor: Predictor, typed: Sequence[str]) -> None:
        """Use another predictor with the same vocabulary; ``typed`` are the messages that this keyboard knows."""
        self.suggester.replace_predictor(Blended(predictor, typed))

    def suggest(self, text: str) -> Sequence[str]:
        """The suggestions for the text before the caret."""
        return self.suggester.suggest(text, language=self._language).words

    def send(self, message: str) -> None:
        """Learn from a message."""
        self.suggester.learn(message)
        self._note([message])

    def _note(self, messages: Sequence[str]) -> None:
        for message in messages:
            self._own.update(word for word, _ in own_words_in(message, self.suggester.knows))
        self.suggester.replace_own_words(OwnWord(word, word, count) for word, count in self._own.items())
