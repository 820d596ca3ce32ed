"""What a federated training is compared with: the same model trained in one place, a trigram, personal models."""

from __future__ import annotations

import numpy as np

from edge_agent.shell.tflite import TfliteProgram
from models.ngram import NgramRecall, train_trigram
from models.vocabulary import words
from models.warm_start import RATE
from simulation.laboratory.checkpoint import restored_weights
from simulation.laboratory.personalisation import Personalised, personalise
from simulation.laboratory.training import PreparedTraining, Trainer, start_weights, train_in_one_place
from simulation.warm_start import evaluate


def trigram(prepared: PreparedTraining) -> NgramRecall:
    """Recall of a Kneser-Ney trigram of everybody's training text, on the measured messages."""
    encode = prepared.vocabulary.encode
    text = [encode(words(message)) for messages in prepared.people.train for message in messages]
    counted = train_trigram(text, prepared.vocabulary.size)
    return counted.recall([encode(words(message)) for message in prepared.people.measured])


def central(prepared: PreparedTraining, passes: float, trainer: Trainer | None = None) -> tuple[float, float, float]:
    """The model trained in one place on everybody's training text, from the same start.

    Args:
        prepared: the run.
        passes: over the text.
        trainer: does the steps; None takes the device program.

    Returns:
        Loss in nats, top-1 and top-3 recall from 0 to 1 on the measured messages.
    """
    device = TfliteProgram(prepared.program, np.zeros(prepared.layout.size, np.float32), prepared.layout)
    messages = [message for messages in prepared.people.train for message in messages]
    start = start_weights(prepared, device)
    weights = train_in_one_place(prepared, trainer or device, start, messages, passes, RATE)
    device.restore(weights)
    return evaluate(device, [prepared.measured])


def personalised(prepared: PreparedTraining, people: int) -> list[Personalised]:
    """What so many people gain by training the finished model for themselves.

    Raises:
        CorpusError: nobody has enough words.
    """
    device = TfliteProgram(prepared.program, np.zeros(prepared.layout.size, np.float32), prepared.layout)
    return personalise(prepared, device, restored_weights(prepared.folder), people)
