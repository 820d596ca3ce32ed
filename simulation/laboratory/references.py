"""What a federated training is compared with: the same model trained in one place, a trigram, personal models."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from edge_agent.shell.tflite import TfliteProgram
from models.ngram import train_trigram
from models.vocabulary import words
from models.warm_start import RATE
from simulation.laboratory.checkpoint import restored_weights
from simulation.laboratory.personalisation import Personalised, personalise
from simulation.laboratory.training import PreparedTraining, Trainer, start_weights, train_in_one_place
from simulation.warm_start import evaluate


class Reference(NamedTuple):
    """Recall from 0 to 1: of the measured messages, and top-1 of those of the people held out; None without them."""

    top1: float
    top3: float
    held_out_top1: float | None


def trigram(prepared: PreparedTraining) -> Reference:
    """A Kneser-Ney trigram of everybody's training text."""
    encode, people = prepared.vocabulary.encode, prepared.people
    text = [encode(words(message)) for messages in people.train for message in messages]
    counted = train_trigram(text, prepared.vocabulary.size)
    known, others = (
        counted.recall([encode(words(message)) for message in messages])
        for messages in (people.measured, people.held_out)
    )
    return Reference(known.top1, known.top3, others.top1 if people.held_out else None)


def central(prepared: PreparedTraining, passes: float, trainer: Trainer | None = None) -> Reference:
    """The model trained in one place on everybody's training text, from the same start.

    Args:
        prepared: the run.
        passes: over the text.
        trainer: does the steps; None takes the device program.
    """
    device = TfliteProgram(prepared.program, np.zeros(prepared.layout.size, np.float32), prepared.layout)
    messages = [message for messages in prepared.people.train for message in messages]
    start = start_weights(prepared, device)
    weights = train_in_one_place(prepared, trainer or device, start, messages, passes, RATE)
    device.restore(weights)
    known, others = (evaluate(device, [batches]) for batches in (prepared.measured, prepared.others))
    return Reference(*known[1:], others[1] if prepared.people.held_out else None)


def personalised(prepared: PreparedTraining, people: int) -> list[Personalised]:
    """What so many people gain by training the finished model for themselves.

    Raises:
        CorpusError: nobody has enough words.
    """
    device = TfliteProgram(prepared.program, np.zeros(prepared.layout.size, np.float32), prepared.layout)
    return personalise(prepared, device, restored_weights(prepared.folder), people)
