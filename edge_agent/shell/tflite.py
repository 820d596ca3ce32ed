"""Adapter for the TFLite runtime: ``ai-edge-litert``, or ``tflite-runtime`` on 32-bit devices.

Of a keyboard's program only the training signatures are called; :mod:`nightjar.edge_agent.core.prediction` predicts and
evaluates. The reason is that a runtime keeps the tensors of each signature it has prepared. For the same reason the
interpreter is not asked to allocate the tensors of all signatures at once, which costs 60 MB in 2.14 and makes no
training step faster. Finite weights are restored before anything else: reading a variable that was never set raises in
2.14 and silently gives NaN in litert.
An interpreter belongs to one thread; each interpreter has its own variables. Every exception of a runtime becomes
:class:`RemoteProtocolError` with code ``program``: the program is an artifact that came over the network.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt

from nightjar.edge_agent.core.prediction import score, weights_of
from nightjar.edge_agent.core.results import Evaluation, TrainStep
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Ids
from nightjar.edge_agent.shell.weights import mapped_weights
from nightjar.models.manifest import KEYBOARD, Artifact
from nightjar.models.packaged import packaged_program
from nightjar.models.padding import cleared, word_ids
from nightjar.models.signed_programs import UNSIGNED
from nightjar.wire.errors import ConfigError, RemoteProtocolError, UnavailableError
from nightjar.wire.parameters import ParameterLayout, Vector

RUNTIMES = (("ai_edge_litert", "ai-edge-litert"), ("tflite_runtime", "tflite-runtime"))
"""(module, distribution) in order of preference: litert is faster and still maintained, but has no 32-bit wheels."""

SIGNATURES = ("train", "read", "write", "begin", "train_momentum")
"""The signatures that training needs."""


def runtime_name() -> str:
    """Name and version of the runtime in use, such as ``ai-edge-litert 2.1.6``.

    Raises:
        ConfigError: none is installed.
    """
    _, distribution = _runtime()
    return f"{distribution} {metadata.version(distribution)}"


def load_program(model: Model) -> TfliteProgram:
    """Load a model from this device's files, with its weights restored.

    On a device nothing else gives a file to an interpreter. The bytes that were hashed here are those that run, so
    nobody can exchange the file in between.

    Raises:
        RemoteProtocolError: the program may not be run (``unsigned-program``), cannot be run, or does not accept these
            weights.
        UnavailableError: the files are gone.
    """
    manifest = model.manifest
    if not model.program_signed and packaged_program(manifest) is None:
        msg = f"expected a program of this agent or of the device's owner, got {manifest.program.sha256[:12]}"
        raise RemoteProtocolError(msg, code=UNSIGNED)
    keyboard = manifest.task_type == KEYBOARD
    try:
        program = model.program.read_bytes()
        words = word_ids(model.vocabulary.read_bytes()) if keyboard else None
    except OSError as error:
        msg = f"the program of model version {manifest.version} cannot be read: {error}"
        raise UnavailableError(msg) from error
    if Artifact.of(program) != manifest.program:
        msg = f"the program could not load: expected the file {manifest.program.sha256[:12]}, got another"
        raise RemoteProtocolError(msg, code="program")
    return TfliteProgram(program, mapped_weights(model), manifest.layout, in_numpy=keyboard, word_ids=words)


class TfliteProgram:
    """A program in an interpreter of its own. Implements :class:`nightjar.edge_agent.ports.FurtherProgram`.

    ``program`` is the content of a ``.tflite`` file. The weights, (n,) float32, are restored at once. ``in_numpy``
    evaluates a keyboard's weights in numpy, which needs less memory than ``evaluate`` of the program. ``word_ids`` is
    the size of a keyboard's vocabulary, which may be padded; None if the layout has just its words.

    Raises:
        RemoteProtocolError: the program does not have our signatures, or does not accept these weights.
    """

    def __init__(
        self,
        program: bytes,
        weights: Vector,
        layout: ParameterLayout,
        *,
        in_numpy: bool = True,
        word_ids: int | None = None,
    ) -> None:
        self._layout, self._word_ids = layout, word_ids
        self._content = program  # the interpreter reads it where it is
        self._in_numpy = in_numpy
        with _faults("load"):
            # A second thread helps only on an idle machine; on a busy one it spins.
            self._interpreter = _interpreter_class()(model_content=program, num_threads=1)
            offered = set(self._interpreter.get_signature_list())
        if not offered.issuperset(SIGNATURES):
            msg = f"expected a program with the signatures {', '.join(SIGNATURES)}, got {', '.join(sorted(offered))}"
            raise RemoteProtocolError(msg, code="program")
        self._saved: Vector | None = None
        self._runners: dict[str, Any] = {}
        self.restore(weights)

    def train(self, x: Ids, y: Ids, learning_rate: float, clip_norm: float) -> TrainStep:
        """One step of SGD on a batch: x, y (B, ...)."""
        return self._train("train", x=x, y=y, **_numbers(learning_rate=learning_rate, clip_norm=clip_norm))

    def begin(self) -> None:
        """Reset the momentum, and take the current weights as the point that ``proximal`` pulls back to."""
        self._call("begin")

    def train_momentum(
        self, x: Ids, y: Ids, learning_rate: float, clip_norm: float, momentum: float, proximal: float
    ) -> TrainStep:
        """One step like ``train``, with momentum and the proximal term of FedProx; requires an earlier ``begin``."""
        rule = _numbers(learning_rate=learning_rate, clip_norm=clip_norm, momentum=momentum, proximal=proximal)
        return self._train("train_momentum", x=x, y=y, **rule)

    def evaluate(self, x: Ids, y: Ids) -> Evaluation:
        """Loss and recall on a batch: x, y (B, ...)."""
        if self._in_numpy:
            return score(weights_of(self.save(), self._layout, self._word_ids), x, y)
        found = self._call("evaluate", x=x, y=y)
        wanted, rank = found["wanted"] > 0, found["rank"]
        counted = float(wanted.sum())
        top1, top3 = (float((wanted & (rank < best)).sum()) for best in (1, 3))
        return Evaluation(float(found["loss"].sum(dtype=np.float64)), counted, counted, top1, top3)

    def save(self) -> Vector:
        """The weights, (n,) float32; treat as read-only."""
        if self._saved is None:
            self._saved = self._layout.flatten(self._call("read"))
        return self._saved

    def restore(self, weights: Vector) -> None:
        """Load weights (n,) float32, from which ``delta`` is measured. The caller must not change them afterwards.

        Padded rows are cleared first, whoever sent them.

        Raises:
            RemoteProtocolError: the weights are not finite, or belong to another model.
        """
        if not np.isfinite(weights).all():
            msg = "expected finite weights, got some that are not"
            raise RemoteProtocolError(msg, code="not-finite")
        if self._word_ids is not None:
            weights = cleared(weights, self._layout, self._word_ids)
        self._call("write", **self._layout.unflatten(weights))
        self._restored = self._saved = weights

    def reset(self) -> None:
        """Go back to the weights of the last ``restore``."""
        self.restore(self._restored)

    def delta(self) -> Vector:
        """The change of the weights since ``restore``, (n,) float32."""
        return self.save() - self._restored

    def _train(self, signature: str, **inputs: npt.NDArray[Any]) -> TrainStep:
        self._saved = None
        outputs = self._call(signature, **inputs)
        return TrainStep(
            loss=float(outputs["loss"]),
            targets=float(outputs["targets"]),
            hits=float(outputs["hits"]),
            gradient_norm=float(outputs["gradient_norm"]),
        )

    def _call(self, signature: str, **inputs: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        with _faults(signature):
            if signature not in self._runners:
                self._runners[signature] = self._interpreter.get_signature_runner(signature)
            outputs: dict[str, npt.NDArray[Any]] = self._runners[signature](**inputs)
            return outputs


def _numbers(**values: float) -> dict[str, npt.NDArray[np.float32]]:
    return {name: np.array([value], np.float32) for name, value in values.items()}


@contextlib.contextmanager
def _faults(what: str) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError, KeyError, SystemError) as error:
        # Error texts of 2.14 may contain stale kernel messages; the first line is enough.
        line = (str(error).splitlines() or [type(error).__name__])[0][:200]
        msg = f"the program could not {what}: {line}"
        raise RemoteProtocolError(msg, code="program") from error


def _runtime() -> tuple[str, str]:
    for module, distribution in RUNTIMES:
        if importlib.util.find_spec(module) is not None:
            return module, distribution
    names = " or ".join(distribution for _, distribution in RUNTIMES)
    msg = f"expected a TFLite runtime ({names}), found none: install requirements/agent.txt"
    raise ConfigError(msg)


def _interpreter_class() -> Any:
    module, _ = _runtime()
    return importlib.import_module(f"{module}.interpreter").Interpreter
