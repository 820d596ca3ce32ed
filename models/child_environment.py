"""Environment variables of a child process that may import TensorFlow; TensorFlow reads them at import."""

from __future__ import annotations

from collections.abc import Mapping


def child_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process.

    >>> child_environment({"HOME": "/"})["TF_CPP_MIN_LOG_LEVEL"]
    '3'

    Args:
        inherited: our own environment; with ``CUDA_VISIBLE_DEVICES=-1`` in it, TensorFlow uses no GPU.
    """
    # By default TensorFlow reserves all of a GPU's memory, so that a second process on that GPU gets none.
    return {**inherited, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
