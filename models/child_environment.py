"""Environment variables of a child process that may import TensorFlow, which reads them when it is imported."""

from __future__ import annotations

from collections.abc import Mapping


def child_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """What a child is given.

    >>> child_environment({"HOME": "/"})["TF_CPP_MIN_LOG_LEVEL"]
    '3'

    Args:
        inherited: our own environment; with ``CUDA_VISIBLE_DEVICES=-1`` in it TensorFlow leaves every GPU alone.
    """
    # By default it takes all of a GPU's memory, also from the other process that exports at the same time.
    return {**inherited, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
