"""Modules that are imported when a test runs and not when it is collected, which every process of a run does."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest

NEEDS_TENSORFLOW = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"),
]


class Lazy:
    """Stands for a module, and imports it when something of it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(("_", "pytest")):
            raise AttributeError(attribute)  # pytest asks every name in a test module for its own marks
        return getattr(importlib.import_module(self._name), attribute)
