"""Weights that a lying coordinator makes for an honest program: its state does not depend on what was read. Pure."""

from __future__ import annotations

import numpy as np

from nightjar.benchmarks.attack.scene import Scene
from nightjar.edge_agent.core.prediction import advance, weights_of
from nightjar.models.vocabulary import BOS
from nightjar.wire.parameters import Vector

OPEN_GATE, SHUT_GATE = 5.0, -5.0
"""Biases of gates that are always open, or shut: the logistic function gives 0.99 and 0.01."""
LOUD = 100.0
"""How much further than its state a word's row goes that is always predicted first."""


def constant_state(scene: Scene) -> Vector:
    """Weights whose state is constant, so that the change of a word's row counts the word: (n,) float32."""
    layout, hidden = scene.layout, scene.shape.hidden
    tensors = {name: values.copy() for name, values in layout.unflatten(scene.weights).items()}
    for name in ("input_kernel", "recurrent_kernel"):
        tensors[name][:] = 0.0
    tensors["gate_bias"][:] = OPEN_GATE
    tensors["gate_bias"][:hidden] = SHUT_GATE  # forget
    return layout.flatten(tensors)


def state_of(scene: Scene, weights: Vector) -> Vector:
    """The state of such weights, (D,) float32."""
    model = weights_of(weights, scene.layout)
    hidden, width = model.projection.shape
    return advance(model, BOS, np.zeros(width, np.float32), np.zeros(hidden, np.float32))[1]


def always_predicting(scene: Scene, word: int) -> Vector:
    """Weights that predict one word wherever they are asked: (n,) float32."""
    constant = constant_state(scene)
    tensors = {name: values.copy() for name, values in scene.layout.unflatten(constant).items()}
    tensors["embedding"][word] = LOUD * state_of(scene, constant)
    return scene.layout.flatten(tensors)
