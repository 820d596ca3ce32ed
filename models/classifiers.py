"""Models of the task type classification, in Keras, with random weights.

Sources: the 2NN of McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data",
section 3, with layers of 128 and 64 units; LeNet-5 of LeCun et al. 1998, "Gradient-based learning applied to document
recognition", with ReLU and maxima; ResNet-8 of He et al. 2016, "Deep residual learning for image recognition", section
4.2 with n = 1, with group normalization (Wu and He 2018), because the statistics of a batch are no weights (Hsieh et
al. 2020, "The non-IID data quagmire of decentralized machine learning").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras

from nightjar.models.automatic import export_program
from nightjar.models.classification import Classification
from nightjar.models.manifest import Manifest
from nightjar.wire.errors import ConfigError

Shape = tuple[int, ...]
layers = keras.layers

GROUPS = 8
"""Groups of channels that are normalized together."""


def classifier(name: str, inputs: Sequence[int], classes: int, seed: int) -> Any:
    """One of :data:`nightjar.models.folder.CLASSIFIERS` with random weights; its outputs are logits.

    Raises:
        ConfigError: the model does not take examples of this shape.
    """
    keras.utils.set_random_seed(seed)
    kinds: dict[str, Callable[[Any], Any]] = {
        "logistic": layers.Flatten(name="pixels"),
        "2nn": _two_layers,
        "lenet-5": _lenet,
        "resnet-8": _resnet,
    }
    if name in ("lenet-5", "resnet-8") and (len(inputs) != 3 or min(inputs[:2]) < 16):
        msg = f"model {name!r} takes images of at least 16 x 16, got examples of shape {tuple(inputs)}"
        raise ConfigError(msg)
    given = keras.Input(tuple(inputs))
    return keras.Model(given, layers.Dense(classes, name="classes")(kinds[name](given)), name=name)


def export_classifier(name: str, examples: Path, out: Path, seed: int) -> Manifest:
    """Write the folder of a :func:`classifier` for the classes of examples (:mod:`nightjar.models.classification`).

    Raises:
        ConfigError: the examples cannot be read, or do not fit the model.
        UnavailableError: the conversion failed, or the folder cannot be written.
    """
    x, labels = Classification().read(examples)
    classes = sorted(set(labels), key=lambda label: (len(label), label))
    return export_program(classifier(name, x.shape[1:], len(classes), seed), out, labels=classes, name=name)


def _two_layers(x: Any) -> Any:
    x = layers.Flatten(name="pixels")(x)
    for number, units in enumerate((128, 64), 1):
        x = layers.Dense(units, activation="relu", name=f"hidden{number}")(x)
    return x


def _lenet(x: Any) -> Any:
    for number, filters in enumerate((6, 16), 1):
        same = "same" if number == 1 and x.shape[1] < 32 else "valid"
        x = layers.Conv2D(filters, 5, padding=same, activation="relu", name=f"conv{number}")(x)
        x = layers.MaxPooling2D(2, name=f"pool{number}")(x)
    x = layers.Flatten(name="pixels")(x)
    for number, units in enumerate((120, 84), 1):
        x = layers.Dense(units, activation="relu", name=f"hidden{number}")(x)
    return x


def _resnet(x: Any) -> Any:
    x = _normal(layers.Conv2D(16, 3, padding="same", use_bias=False, name="first")(x), "first")
    x = layers.ReLU(name="first_relu")(x)
    for number, filters in enumerate((16, 32, 64), 1):
        x = _block(x, filters, 1 if number == 1 else 2, f"block{number}")
    size = x.shape[1:3]
    return layers.Flatten(name="features")(layers.AveragePooling2D(size, name="mean")(x))


def _block(x: Any, filters: int, stride: int, name: str) -> Any:
    short = x
    if stride > 1:
        short = layers.Conv2D(filters, 1, strides=stride, use_bias=False, name=f"{name}_short")(x)
    x = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False, name=f"{name}_a")(x)
    x = layers.ReLU(name=f"{name}_relu")(_normal(x, f"{name}_a"))
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False, name=f"{name}_b")(x)
    return layers.ReLU(name=f"{name}_out")(layers.Add(name=f"{name}_add")([_normal(x, f"{name}_b"), short]))


def _normal(x: Any, name: str) -> Any:
    return layers.GroupNormalization(GROUPS, name=f"{name}_normal")(x)
