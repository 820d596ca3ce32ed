"""What a federated training is compared with: the same model trained in one place, and a trigram."""

from __future__ import annotations

from collections.abc import Sequence

from nightjar.models.ngram import NgramRecall, train_trigram
from nightjar.models.vocabulary import words
from nightjar.models.warm_start import RATE
from nightjar.simulation.laboratory.checkpoint import Point
from nightjar.simulation.laboratory.training import (
    PreparedTraining,
    Trainer,
    measure,
    start_weights,
    train_in_one_place,
)


def trigram(prepared: PreparedTraining) -> tuple[NgramRecall, NgramRecall | None]:
    """Recall of a Kneser-Ney trigram of everybody's training text: measured messages, and people held out, if any."""
    encode, people = prepared.vocabulary.encode, prepared.people
    text = [encode(words(message)) for messages in people.train for message in messages]
    counted = train_trigram(text, prepared.vocabulary.size)

    def recall(messages: Sequence[str]) -> NgramRecall:
        return counted.recall([encode(words(message)) for message in messages])

    return recall(people.measured), recall(people.held_out) if people.held_out else None


def central(prepared: PreparedTraining, passes: float, trainer: Trainer | None = None) -> Point:
    """The model trained in one place on everybody's training text, from the same start.

    ``trainer`` does the steps; None takes the device program.
    """
    device = prepared.load_program()
    messages = [message for messages in prepared.people.train for message in messages]
    start = start_weights(prepared, device)
    weights = train_in_one_place(prepared, trainer or device, start, messages, passes, RATE)
    return measure(prepared, device, weights)
