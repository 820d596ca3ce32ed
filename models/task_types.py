"""Task types: what a task predicts, from which examples, and what its figures are called.

A task type is found by the name in a model's manifest: ``keyboard`` and ``classification`` are ours, others come from
packages by the entry point ``nightjar.task_types``. The device and the coordinator ask it for batches; the figures of
a version come from the program's ``evaluate`` (:mod:`nightjar.models.measuring`). Nothing else knows what is predicted.

A type whose examples are a folder of rows derives from :class:`FolderTask` and reads the folder; see
docs/your-own-model.md. Task types never import TensorFlow.
"""

from __future__ import annotations

import abc
import functools
import zlib
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from nightjar.models.batches import Batches, of_rows
from nightjar.models.manifest import KEYBOARD, Manifest
from nightjar.models.source import Source
from nightjar.wire.errors import ConfigError, ExamplesError, RemoteProtocolError
from nightjar.wire.plugins import Plugin, found

GROUP = "nightjar.task_types"
_OURS = {
    KEYBOARD: "nightjar.models.keyboard:KeyboardTask",
    "classification": "nightjar.models.classification:Classification",
}
"""Loaded when they are asked for: one imports the other's module."""


class Split(NamedTuple):
    """A device's examples: those to train on, and those held out. An example's content decides, once and for all."""

    trained: Batches
    held_out: Batches


class TaskType(Protocol):
    """A task type."""

    @property
    def figures(self) -> tuple[str, str]:
        """Names of the two shares that are measured: of the best prediction, and of the best three."""

    def check(self, manifest: Manifest, vocabulary: bytes) -> None:
        """Check what a manifest says against its vocabulary.

        Raises:
            RemoteProtocolError: they do not agree.
        """

    def count(self, source: Source) -> int:
        """Number of examples.

        Raises:
            ExamplesError: they cannot be used.
        """

    def split(self, source: Source, manifest: Manifest, vocabulary: bytes, share: float) -> Split:
        """The device's examples as batches for the program, of which a share is held out.

        Raises:
            ExamplesError: they cannot be used with this model.
        """

    def check_held_out(self, path: Path) -> None:
        """Check that versions can be measured on held-out examples.

        Raises:
            ConfigError: they cannot be read.
        """

    def held_out(self, path: Path, manifest: Manifest, vocabulary: bytes) -> Batches:
        """The held-out examples on which the coordinator measures versions, with the program's ``evaluate``.

        Raises:
            ConfigError: they cannot be read, or do not fit the model.
        """


class FolderTask(abc.ABC):
    """Base of task types whose examples are rows in a folder. Implements :class:`TaskType`."""

    figures = ("accuracy", "top-3 accuracy")

    @abc.abstractmethod
    def read(self, folder: Path) -> tuple[npt.NDArray[np.float32], Sequence[str] | npt.NDArray[np.float32]]:
        """The examples of a folder (or of one file): x (n, ...) float32, and n labels or numbers to predict.

        Raises:
            ExamplesError: they cannot be used.
        """

    def check(self, manifest: Manifest, vocabulary: bytes) -> None:
        """Check that there is a shape of an example, and that no class is named twice."""
        labels = labels_of(vocabulary)
        if not manifest.inputs or len(set(labels)) != len(labels):
            msg = f"manifest: expected the shape of an example and different classes, got {manifest.inputs}, {labels}"
            raise RemoteProtocolError(msg, code="manifest")

    def count(self, source: Source) -> int:
        """Number of rows."""
        return 0 if source.folder is None else len(self.read(Path(source.folder))[0])

    def split(self, source: Source, manifest: Manifest, vocabulary: bytes, share: float) -> Split:
        """The rows as batches, held out by their content."""
        if source.folder is None:
            msg = "store.examples: expected a folder of examples, none is configured"
            raise ExamplesError(msg, "no-folder")
        x, y = self.rows(Path(source.folder), manifest, vocabulary)
        held = np.zeros(len(x), bool)
        if share:
            held[:] = [zlib.crc32(each.tobytes()) < share * 2**32 for each in x]
        return Split(*(of_rows(x, y, manifest.batch_rows, chosen) for chosen in (~held, held)))

    def rows(self, path: Path, manifest: Manifest, vocabulary: bytes) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The examples for a model: x (n, *inputs) float32, y (n,) int32 classes or float32 numbers.

        Raises:
            ExamplesError: they have another shape, or a class that the model does not know.
        """
        x, targets = self.read(path)
        if x.shape[1:] != manifest.inputs and x[:1].size == np.prod(manifest.inputs):
            x = x.reshape(-1, *manifest.inputs)  # a row of pixels is an image
        if x.shape[1:] != manifest.inputs:
            msg = f"{path}: this model takes examples of shape {manifest.inputs}, these have {x.shape[1:]}"
            raise ExamplesError(msg, "other-shape")
        labels = labels_of(vocabulary)
        if not labels:
            return x, np.asarray(targets, np.float32)
        classes = {label: number for number, label in enumerate(labels)}
        strange = sorted({str(each) for each in targets} - set(classes))
        if strange:
            msg = f"{path}: label {strange[0]!r} is none of the model's classes: {', '.join(labels[:20])}"
            raise ExamplesError(msg, "unknown-class")
        return x, np.array([classes[str(each)] for each in targets], np.int32)

    def check_held_out(self, path: Path) -> None:
        """Read the examples once."""
        self.read(path)

    def held_out(self, path: Path, manifest: Manifest, vocabulary: bytes) -> Batches:
        """All rows as batches."""
        return of_rows(*self.rows(path, manifest, vocabulary), manifest.batch_rows)


def labels_of(vocabulary: bytes) -> list[str]:
    """The classes of a model, in the order of its outputs; none if its targets are numbers.

    Raises:
        RemoteProtocolError: not text.
    """
    try:
        return vocabulary.decode().split("\n")[:-1] if vocabulary.strip() else []
    except UnicodeDecodeError as error:
        msg = f"expected one class a line, got no text: {error}"
        raise RemoteProtocolError(msg, code="vocabulary") from error


@functools.cache
def installed() -> dict[str, Plugin]:
    """All task types of this installation by name, also those that cannot be loaded."""
    return found(GROUP, {name: EntryPoint(name, where, GROUP).load()() for name, where in _OURS.items()})


def usable() -> dict[str, TaskType]:
    """The task types of this installation that can be used, by name."""
    return {name: plugin.value for name, plugin in installed().items() if not plugin.fault}


def figure_names(name: str) -> tuple[str, str]:
    """What the two shares of a task type's models are called; also if it cannot be used here.

    >>> figure_names("keyboard")
    ('top-1 recall', 'top-3 recall')
    """
    kind = usable().get(name)
    return ("top-1", "top-3") if kind is None else kind.figures


def task_type(name: str) -> TaskType:
    """The task type with this name.

    Raises:
        ConfigError: no package offers it here, or it cannot be loaded.
    """
    plugin = installed().get(name)
    if plugin is None or plugin.fault:
        why = "is not installed" if plugin is None else f"cannot be loaded: {plugin.fault}"
        msg = f"the task type {name!r} {why}; there are {', '.join(sorted(usable()))}"
        raise ConfigError(msg)
    value: TaskType = plugin.value
    return value
