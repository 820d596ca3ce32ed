"""A federation small enough to follow by hand: few weights, a device whose training is a made-up vector."""

import numpy as np

from nightjar.edge_agent.core.results import Evaluation, TrainStep
from nightjar.experiments.codec_study.population import Population, PopulationSetting
from nightjar.models.batches import pack
from nightjar.wire.parameters import ParameterLayout, ParameterSpec

LAYOUT = ParameterLayout((ParameterSpec("w", (10, 20)),))
FEW = Population("few", phones=4, cohort=2, rounds=3, fewest_messages=1, learning_rate=0.5)
ALL = Population("all", phones=4, cohort=4, rounds=3, fewest_messages=1, learning_rate=0.5)


class Device:
    """Each phone moves the weights by its own vector, whatever the model; the loss is how far they are from it."""

    batch_rows, sequence_length = 1, 4

    def __init__(self):
        self.weights = self.anchor = np.zeros(LAYOUT.size, np.float32)

    def train(self, x, y, learning_rate, clip_norm):
        direction = np.random.default_rng(int(x.max())).standard_normal(LAYOUT.size).astype(np.float32)
        self.weights = self.weights + np.float32(learning_rate) * direction
        return TrainStep(1.0, float(np.count_nonzero(y)), 0.0, 1.0)

    def evaluate(self, x, y):
        return Evaluation(float(np.linalg.norm(self.weights)), 1.0, 1.0, 0.25, 0.5)

    def restore(self, weights):
        self.weights = self.anchor = weights.copy()

    def delta(self):
        return self.weights - self.anchor


def setting(population=FEW):
    """Phone p typed p + 1 messages of one word, so the weights of the phones differ."""
    phones = tuple(pack([[4 + phone]] * (phone + 1), 8, 4) for phone in range(population.phones))
    start = np.zeros(LAYOUT.size, np.float32)
    return PopulationSetting(population, 1, Device(), LAYOUT, start, phones, pack([[4]], 1, 4))
