"""Padding of a vocabulary: rows of the embedding that belong to no word, so that few programs serve all vocabularies.

The rows follow those of the words, and are zero. A padded program (:mod:`nightjar.models.packaged`) gives them the
probability 0, so that they never change. Everything else cuts them off before it reads the weights (:func:`cropped`),
and whoever takes weights from somebody else clears them (:func:`cleared`): a padded row is never suggested or learned.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from nightjar.models.vocabulary import FIRST_WORD
from nightjar.wire.parameters import ParameterLayout, ParameterSpec, Vector

Float = TypeVar("Float", bound=np.floating)


def word_ids(vocabulary: bytes) -> int:
    r"""How many ids a vocabulary file has, specials included, without reading its words.

    >>> word_ids(b"the\ncat\n")
    6
    """
    return FIRST_WORD + vocabulary.count(b"\n")


def cropped_layout(layout: ParameterLayout, size: int) -> ParameterLayout:
    """The layout of the same model for ``size`` word ids.

    >>> from nightjar.models.configurations import lstm_layout
    >>> cropped_layout(lstm_layout(10, 3, 5), 7) == lstm_layout(7, 3, 5)
    True
    """
    embedding, *others = layout.tensors
    return ParameterLayout((ParameterSpec(embedding.name, (size, *embedding.shape[1:])), *others))


def padded(weights: Vector, layout: ParameterLayout, size: int) -> Vector:
    """Add zero rows to the embedding of a keyboard's weights.

    Args:
        weights: (m,) float32, of the layout with ``size`` word ids.
        layout: with as many rows of the embedding as the result has.
        size: number of word ids.

    Returns:
        (n,) float32, of the layout.
    """
    embedding = layout.tensors[0].size
    used = embedding // layout.tensors[0].shape[0] * size
    return np.concatenate([weights[:used], np.zeros(embedding - used, np.float32), weights[used:]])


def cropped(weights: Vector, layout: ParameterLayout, size: int) -> Vector:
    """Inverse of :func:`padded`: weights (n,) float32 without the rows above ``size``, (m,) float32."""
    embedding = layout.tensors[0].size
    used = embedding // layout.tensors[0].shape[0] * size
    return weights if used == embedding else np.concatenate([weights[:used], weights[embedding:]])


def cleared(weights: npt.NDArray[Float], layout: ParameterLayout, size: int) -> npt.NDArray[Float]:
    """Weights (n,) whose padded rows are zero; the same array if they are already."""
    embedding = layout.tensors[0].size
    used = embedding // layout.tensors[0].shape[0] * size
    if not weights[used:embedding].any():
        return weights
    result = weights.copy()
    result[used:embedding] = 0.0
    return result
