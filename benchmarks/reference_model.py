"""The keyboard model in idiomatic TensorFlow: variables, a loop over time, ``tf.GradientTape``.

``benchmarks.device`` compares its speed; tests check the hand-written gradient of ``models.lstm`` against it.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from nightjar.models.configurations import ModelConfiguration
from nightjar.models.vocabulary import BOS, PAD
from nightjar.wire.parameters import Vector

Tensor = Any


class ReferenceModel:
    """A tied recurrent model with automatic differentiation."""

    def __init__(self, configuration: ModelConfiguration, vocabulary_size: int, weights: Vector) -> None:
        self._cell = configuration.cell
        self.layout = configuration.layout(vocabulary_size)
        self.variables = {name: tf.Variable(value) for name, value in self.layout.unflatten(weights).items()}
        self.train = tf.function(self.train_eagerly)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean cross-entropy per target of a batch (B, T), nats."""
        v = self.variables
        embedded = tf.nn.embedding_lookup(v["embedding"], x)  # (B, T, D)
        h = tf.zeros_like(embedded[:, 0])
        c = tf.zeros((x.shape[0], v["projection"].shape[0]))
        outputs = []
        for word, token in zip(tf.unstack(embedded, axis=1), tf.unstack(x, axis=1), strict=True):
            begins = tf.expand_dims(tf.equal(token, BOS), 1)
            h, c = tf.where(begins, tf.zeros_like(h), h), tf.where(begins, tf.zeros_like(c), c)
            gated, c = self._step(word @ v["input_kernel"], h @ v["recurrent_kernel"], c)
            h = gated @ v["projection"]
            outputs.append(h)
        logits = tf.einsum("btd,vd->btv", tf.stack(outputs, axis=1), v["embedding"])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        mask = tf.cast(y != PAD, tf.float32)
        return tf.reduce_sum(losses * mask) / tf.maximum(tf.reduce_sum(mask), 1.0)

    def _step(self, word: Tensor, state: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """One step of the cell, from the products (B, G) with the word and the state. Returns m and c."""
        bias = self.variables["gate_bias"]
        if self._cell == "gru":
            of_word = tf.split(word + bias[: word.shape[1]], 3, axis=1)
            of_state = tf.split(state, 3, axis=1)
            forget, reset = (tf.sigmoid(of_word[gate] + of_state[gate]) for gate in (0, 1))
            candidate = tf.tanh(of_word[2] + reset * (of_state[2] + bias[word.shape[1] :]))
            c = forget * c + (1.0 - forget) * candidate
            return c, c
        gates = tf.split(word + state + bias, word.shape[1] // c.shape[1], axis=1)
        forget, output = tf.sigmoid(gates[0]), tf.sigmoid(gates[1])
        write = tf.sigmoid(gates[2]) if self._cell == "lstm" else 1.0 - forget
        c = forget * c + write * tf.tanh(gates[-1])
        return output * tf.tanh(c), c

    def gradient(self, x: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss, and its dense gradient by name."""
        with tf.GradientTape() as tape:
            loss = self.loss(x, y)
        slopes = tape.gradient(loss, self.variables)
        return loss, {name: tf.convert_to_tensor(slope) for name, slope in slopes.items()}

    def train_eagerly(self, x: Tensor, y: Tensor, learning_rate: Tensor, clip_norm: Tensor) -> Tensor:
        """One step of SGD with clipping by global norm; ``train`` is the same as a graph. Returns the loss."""
        loss, slopes = self.gradient(x, y)
        clipped, _ = tf.clip_by_global_norm(list(slopes.values()), clip_norm)
        for variable, slope in zip(self.variables.values(), clipped, strict=True):
            variable.assign_sub(learning_rate * slope)
        return loss

    def weights(self) -> Vector:
        """(n,) float32."""
        return self.layout.flatten({name: variable.numpy() for name, variable in self.variables.items()})
