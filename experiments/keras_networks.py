"""Keras networks of the pages on images, and their averaging.

TensorFlow trains them unless ``KERAS_BACKEND=jax`` says otherwise, and on a GPU if there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Network = Any
"""A ``keras.Model``: Keras has no types."""
layers = keras.layers


def alexnet(side: int, classes: int) -> Network:
    """AlexNet's five convolutions and three dense layers for images of 28 pixels.

    It has a quarter of the channels. The first kernel is 3 wide instead of 11 with stride 4, and pools
    halve 28 to 14, 7 and 3.
    """
    return keras.Sequential(
        [
            layers.Input((side, side, 1)),
            layers.Conv2D(24, 3, padding="same", activation="relu"),
            layers.MaxPool2D(2),
            layers.Conv2D(64, 5, padding="same", activation="relu"),
            layers.MaxPool2D(2),
            layers.Conv2D(96, 3, padding="same", activation="relu"),
            layers.Conv2D(96, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPool2D(2),
            layers.Flatten(),
            layers.Dense(256, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(256, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(classes),
        ]
    )


def unet(side: int) -> Network:
    """A U-Net (Ronneberger et al. 2015) of two levels: one channel in, the logit of a lesion at each pixel out."""
    x = layers.Input((side, side, 1))
    wide = _twice(x, 8)
    deep = _twice(layers.MaxPool2D(2)(wide), 16)
    up = layers.Conv2DTranspose(8, 2, strides=2, activation="relu")(deep)
    together = _twice(layers.Concatenate()([wide, up]), 8)
    return keras.Model(x, layers.Conv2D(1, 1)(together))


def _twice(x: Any, channels: int) -> Any:
    for _ in range(2):
        x = layers.Conv2D(channels, 3, padding="same", activation="relu")(x)
    return x


def conv_lstm(slices: int, side: int) -> Network:
    """A convolutional LSTM (Shi et al. 2015) over the slices of a volume: the logit of a lesion anywhere in it."""
    return keras.Sequential(
        [
            layers.Input((slices, side, side, 1)),
            layers.ConvLSTM2D(6, 3, padding="same"),
            layers.GlobalMaxPool2D(),
            layers.Dense(1),
        ]
    )


def fit(network: Network, x: Array, y: Array, epochs: int, seed: int) -> None:
    """Train a compiled network by Adam, with moments of 0 each time: a party keeps nothing between rounds."""
    keras.utils.set_random_seed(seed)
    network.optimizer.build(network.trainable_variables)
    for variable in network.optimizer.variables:
        if variable.name != "learning_rate":
            variable.assign(keras.ops.zeros(variable.shape, variable.dtype))
    network.fit(x, y, 16, epochs, verbose=0)


def average(parties: Sequence[list[Array]], shares: Sequence[float]) -> list[Array]:
    """FedAvg of ``get_weights()``."""
    return [np.average(together, axis=0, weights=shares).astype(np.float32) for together in zip(*parties, strict=True)]
