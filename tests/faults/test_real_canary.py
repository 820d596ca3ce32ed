"""A canary judged by what a real LSTM foresees, with no broker: the program's figures, counted as a fleet's are.

The way of those figures from phones to a rollback is in test_rollback.py, where they are set by hand.
"""

import msgspec
import numpy as np
import pytest

from nightjar.coordinator.learning.device_metrics import tally
from nightjar.coordinator.versions.rollout import TrialFailed, TrialPassed, judge
from nightjar.coordinator.versions.trial_policy import TrialPolicy
from nightjar.edge_agent.core.training import evaluate
from nightjar.edge_agent.shell.tflite import load_program
from nightjar.models.configurations import CONFIGURATIONS
from nightjar.models.corpora.personas import personas
from nightjar.models.keyboard import batches_of
from nightjar.models.vocabulary import Vocabulary
from nightjar.simulation.warm_start import warm_up, warm_up_batches
from nightjar.wire.frame import LocalEvaluation
from tests.edge_agent.conftest import exported  # noqa: F401 - a fixture

pytestmark = [pytest.mark.long, pytest.mark.tflite, pytest.mark.tensorflow]

POLICY = TrialPolicy(share=0.1, devices=6)
PEOPLE = 6
STEPS = 300


def found_by(program, weights, batches):
    """What a device would report of these weights."""
    program.restore(weights)
    one = evaluate(program, batches)
    counts = (int(one.top1), int(one.top3))
    loss = one.loss_sum / one.targets
    return LocalEvaluation(int(one.counted), *counts, *counts, loss, loss)


def judged(before, after):
    tried = msgspec.structs.replace(tally(after, trained=False), tried=PEOPLE)
    return judge(POLICY, tried, [tally(before, trained=False)], since_s=0.0, now_s=60.0)


def test_broken_weights_are_taken_back_and_trained_ones_are_not(exported):  # noqa: F811 - the fixture
    model = exported.model
    vocabulary = Vocabulary.from_bytes(model.vocabulary.read_bytes())
    shape = CONFIGURATIONS["tiny"]
    people = list(personas(3, PEOPLE).users.values())
    program = load_program(model)
    texts = [text for messages in people for text in messages[::2]]
    warm_up(program, warm_up_batches(texts, vocabulary, shape, STEPS, 5))
    good = program.save()
    warm_up(program, warm_up_batches(texts, vocabulary, shape, STEPS // 10, 6))
    better = program.save()
    layout = model.manifest.layout
    tensors = {name: tensor.copy() for name, tensor in layout.unflatten(good).items()}
    tensors["projection"] *= -1
    broken = np.concatenate([tensors[name].ravel() for name in layout.unflatten(good)])

    held_out = [batches_of(messages[1::2], vocabulary, shape.batch_rows, shape.sequence_length) for messages in people]
    before, after_good, after_bad = (
        [found_by(program, weights, batches) for batches in held_out] for weights in (good, better, broken)
    )
    assert isinstance(judged(before, after_good), TrialPassed)
    verdict = judged(before, after_bad)
    assert isinstance(verdict, TrialFailed)
    assert "top-1 on" in verdict.reason
    print(verdict.reason)
