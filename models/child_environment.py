"""Environment variables of a child process that may import TensorFlow; TensorFlow reads them at import."""

from __future__ import annotations

from collections.abc import Mapping


def child_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process: our own, which uses no GPU if it has ``CUDA_VISIBLE_DEVICES=-1``.

    >>> child_environment({"HOME": "/"})["TF_CPP_MIN_LOG_LEVEL"]
    '3'
    """
    # By default TensorFlow reserves all of a GPU's memory, so that a second process on that GPU gets none.
    return {**inherited, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
