"""What a training session is given, what it produces, and who runs it, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.core.stored import Caps, NewReport
from nightjar.edge_agent.model import Model
from nightjar.models.source import Source
from nightjar.wire.frame import KeyboardEvaluation, LocalEvaluation
from nightjar.wire.messages import Assignment


@dataclass(frozen=True, slots=True, eq=False)
class Produced:
    """The result of a session: a report that is ready to be stored.

    Attributes:
        num_examples: number of targets trained on, counted over one pass.
        loss: mean loss per target over the last epoch, nats.
        evaluation: result on held-out messages, if the plan asks for it and there are enough.
        personal_share: share of the update in the personal model that was kept; 0 if none was kept.
        words: (values,) uint32, the contribution to a secure sum, to be masked and put into the report; None without.
        keyboard: what the keyboard saves on held-out messages, if the plan asks for it and there is one.
        keyboard_fault: why it could not be counted.
    """

    report: NewReport
    num_examples: int
    steps: int
    loss: float
    seconds: float
    evaluation: LocalEvaluation | None = None
    personal_share: float = 0.0
    words: npt.NDArray[np.uint32] | None = None
    keyboard: KeyboardEvaluation | None = None
    keyboard_fault: str = ""


@dataclass(frozen=True, slots=True)
class StoredMessages:
    """The typed messages of a device, for the process that reads them: its database, and the limits on a session."""

    database: Path
    caps: Caps


@dataclass(frozen=True, slots=True, eq=False)
class SessionTask:
    """The inputs of a session.

    Attributes:
        seed: seed of the generator for shuffling, and for rounding in the codec.
        personal: file for the personal model if it is better; None keeps none.
        announced: the version that the keyboard has, if it is to be compared; else None.
        messages: where the training process finds the messages, which are not in ``source`` then.
    """

    assignment: Assignment
    model: Model
    source: Source
    seed: int
    personal: Path | None = None
    announced: Model | None = None
    messages: StoredMessages | None = None


EvaluateKeyboard = Callable[[SessionTask, Callable[[], bool], Callable[[], float]], KeyboardEvaluation | None]
"""Counts what the keyboard saves on held-out messages, given ``should_stop``, polled between messages, and a clock.
None if it was stopped, or there is nothing to compare. Raises NightjarError if a version's files cannot be used."""

Trainer = Callable[[SessionTask, Callable[[], bool]], Produced | TrainingStopped]
"""Runs a session and polls ``should_stop`` between batches. Raises the errors of
:func:`nightjar.edge_agent.session.session.train_and_encode`."""
