"""What the whole keyboards of the people who train save on words of their own, as their devices measure it.

A keyboard has the fleet's model, the n-gram model that came with it, the lexicon, and history, own words and weights of
the mixture from the messages that its device trains on. It types the messages again that the device holds back from
training; it does not learn from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nightjar.edge_agent.core.keystrokes import Replayed, newest, replay
from nightjar.edge_agent.core.mixture import Mixture
from nightjar.edge_agent.core.prediction import weights_of
from nightjar.edge_agent.keyboard.floor import floor
from nightjar.edge_agent.keyboard.reader import Reader
from nightjar.edge_agent.keyboard.whole import WholeKeyboard
from nightjar.edge_agent.shell.keyboard_evaluation import MOST_WORDS, BesideModel, keyboard_around
from nightjar.edge_agent.shell.keyboard_model import KeyboardModel
from nightjar.models.compact_ngram import read_ngram
from nightjar.models.keyboard import held_out
from nightjar.models.lexicon import read_lexicon
from nightjar.models.word_lists import compiled
from nightjar.simulation.laboratory.checkpoint import restored
from nightjar.simulation.laboratory.outcome import Saved, Versions
from nightjar.simulation.laboratory.training import PreparedTraining, start_weights
from nightjar.wire.errors import UnavailableError
from nightjar.wire.frame import KeyboardEvaluation
from nightjar.wire.parameters import Vector

LANGUAGE = "en"


@dataclass(frozen=True, slots=True, eq=False)
class OwnKeyboards:
    """The keyboards of a run's people.

    Attributes:
        kept: version and person -> what was counted, so that no version is measured twice for a person.
        made: person -> the keyboard; a version replaces its predictor, and own words and lexicon stay.
    """

    prepared: PreparedTraining
    beside: BesideModel
    kept: dict[tuple[int, int], Replayed] = field(default_factory=dict)
    made: dict[int, WholeKeyboard] = field(default_factory=dict)

    def compared(
        self, people: Sequence[int], base: tuple[int, Vector], announced: tuple[int, Vector]
    ) -> dict[int, KeyboardEvaluation]:
        """What the devices of these people report: of two versions, each its number and its weights (n,) float32.

        Whose held-back messages have no word reports nothing.
        """
        found = {}
        for person in people:
            ours, theirs = self.held_back(person, *base), self.held_back(person, *announced)
            if ours.letters:
                found[person] = KeyboardEvaluation(ours.letters, ours.saved, announced[0], theirs.saved)
        return found

    def held_back(self, person: int, version: int, weights: Vector) -> Replayed:
        """What a keyboard saves on the messages that its device holds back."""
        if (version, person) not in self.kept:
            share = self.prepared.experiment.plan.evaluation_share
            typed, held = held_out(self.prepared.people.train[person], share)
            predictor = self._predictor(typed, version, weights)
            if person not in self.made:
                self.made[person] = keyboard_around(predictor, self.beside, typed)
            else:
                self.made[person].replace_predictor(predictor, typed)
            self.kept[version, person] = _replayed(self.made[person], held)
        return self.kept[version, person]

    def later(self, person: int, version: int, weights: Vector) -> Replayed:
        """What it saves on later messages, which decided nothing, after everything before was typed on it."""
        people = self.prepared.people
        typed = people.train[person]
        keyboard = keyboard_around(self._predictor(typed, version, weights), self.beside, typed)
        return _replayed(keyboard, people.later[person])

    def _predictor(self, typed: Sequence[str], version: int, weights: Vector) -> Mixture:
        model = KeyboardModel(weights_of(weights, self.prepared.layout), self.prepared.vocabulary, version)
        return self.beside.mixed(Reader(model), typed)


def _replayed(keyboard: WholeKeyboard, messages: Sequence[str]) -> Replayed:
    return sum((replay(keyboard.suggest, message) for message in newest(messages, MOST_WORDS)), Replayed())


def own_keyboards(prepared: PreparedTraining) -> OwnKeyboards:
    """The keyboards of a run whose start is pre-trained.

    Raises:
        ConfigError: the word lists are not installed.
    """
    assert prepared.first is not None, "the experiment was checked"
    vocabulary, name = prepared.vocabulary, prepared.experiment.model
    lexicon = read_lexicon(compiled(LANGUAGE))
    ngram = read_ngram(prepared.first.ngram(name), vocabulary.size)
    beside = BesideModel(ngram, {LANGUAGE: lexicon}, floor(vocabulary, [lexicon]), LANGUAGE)
    return OwnKeyboards(prepared, beside)


def versions_of(keyboards: OwnKeyboards) -> Versions:
    """What the gate of a run that has ended made of its versions.

    Raises:
        UnavailableError: the run has not begun.
    """
    prepared = keyboards.prepared
    state = restored(prepared.folder)
    if state is None or state.gate is None or state.announced is None:
        msg = f"{prepared.folder} has no announced version: run the experiment first"
        raise UnavailableError(msg)
    gate, people = state.gate, range(len(prepared.people.train))
    ends = {0: start_weights(prepared, prepared.load_program()), gate.announced[-1]: state.announced}
    later = {
        version: Saved.of(keyboards.later(person, version, weights).saved_percent for person in people)
        for version, weights in ends.items()
    }
    own = {version: Saved.of(percents.values()) for version, percents in sorted(gate.saved.items())}
    return Versions(list(gate.announced), gate.paused, own, later)
