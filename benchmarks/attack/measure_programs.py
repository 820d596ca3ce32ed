"""Measures what a coordinator gains that chooses what a device computes: a crafted program, and crafted weights.

Both are sent to one device at a time, which trains within the default ``[limits]`` and reports at the largest density
that they allow. The gain is what the attacker reads beyond an honest coordinator who gets the same person's report:

- ``program``: the share of a person's three-word sequences that are read from the report, in order
  (:mod:`nightjar.benchmarks.attack.crafted_program`). Mended, the device refuses the program, and the attacker has the
  honest report. Not mended, that check is switched off here.
- ``weights``: the share of a person's distinct words among as many that the attacker names. The crafted weights hold
  the state of the model constant, so that the change of a word's row counts the word. Nothing mends it: the program is
  honest, and weights are the coordinator's to choose.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nightjar.benchmarks.attack.measure_leaks import Leak
from nightjar.benchmarks.attack.scene import Scene
from nightjar.edge_agent.core.owners import ProgramOwner
from nightjar.edge_agent.core.prediction import advance, weights_of
from nightjar.edge_agent.shell.owned_programs import OwnedPrograms, no_document
from nightjar.edge_agent.shell.signatures import signature_valid
from nightjar.edge_agent.shell.tflite import TfliteProgram
from nightjar.models.folder import MINIMUM_AGENT_VERSION
from nightjar.models.manifest import Artifact, Manifest
from nightjar.models.vocabulary import BOS, EOS, FIRST_WORD
from nightjar.simulation.laboratory.clients import Device, train_client
from nightjar.simulation.warm_start import seeded
from nightjar.wire.codec import Sparse
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.limits import Limits
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import Vector

ROUND = 1
T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.2, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.1, 2.09)
"""Student's t at 97.5 % by degrees of freedom, from 1; above, 2 is near enough."""
OPEN_GATE, SHUT_GATE = 5.0, -5.0
"""Biases of gates that are always open, or shut: the logistic function gives 0.99 and 0.01."""
OWNER = ProgramOwner(frozenset({"0" * 64}))
"""Somebody whose key the coordinator does not have."""

Triple = tuple[int, int, int]


def interval(gains: Sequence[float]) -> tuple[float, float, float]:
    """The mean and its 95 % interval (Student 1908).

    >>> interval([0.0, 0.0])
    (0.0, 0.0, 0.0)
    """
    mean = statistics.fmean(gains)
    if len(gains) < 2:
        return mean, -math.inf, math.inf
    t = T_95[len(gains) - 2] if len(gains) - 2 < len(T_95) else 2.0
    half = t * statistics.stdev(gains) / math.sqrt(len(gains))
    return mean, mean - half, mean + half


@dataclass(frozen=True, slots=True, eq=False)
class ProgramMeter:
    """A coordinator that crafts what one device computes; ``seeds`` people are drawn."""

    scene: Scene
    seeds: int

    def leaks(self, got: Callable[[Leak], None]) -> list[Leak]:
        """The rows; ``got`` is told each as it ends."""
        found = []
        device = replace(self.scene.device, codec=CodecChoice(name="topk-4", density=Limits().density))
        for measure in (self._programs, self._weights):
            for row in measure(device):
                found.append(row)
                got(row)
        return found

    def _programs(self, device: Device) -> Iterable[Leak]:
        from nightjar.benchmarks.attack.crafted_program import crafted_program  # needs TensorFlow

        scene = self.scene
        program = crafted_program(scene.shape, scene.vocabulary.size)
        people = self._people("program")
        honest = [self._read_in_order(device, person) for person in people]
        for mended in (False, True):
            computes = not mended or self._allowed(program)
            crafted = device
            if computes:
                loaded = TfliteProgram(program, scene.weights, scene.layout)
                crafted = replace(device, program=loaded)
            read = [self._read_in_order(crafted, person) for person in people] if computes else honest
            yield self._leak("program", mended, [one - other for one, other in zip(read, honest, strict=True)])

    def _allowed(self, program: bytes) -> bool:
        """Whether a device's own check lets the program through."""
        shape, unknown = self.scene.shape, Artifact.of(b"0")
        manifest = Manifest(
            version=ROUND,
            configuration=shape.name,
            program=Artifact.of(program),
            weights=unknown,
            vocabulary=unknown,
            layout=self.scene.layout,
            batch_rows=shape.batch_rows,
            sequence_length=shape.sequence_length,
            hidden=shape.hidden,
            minimum_agent_version=MINIMUM_AGENT_VERSION,
        )
        try:
            with tempfile.TemporaryDirectory() as folder:
                OwnedPrograms(Path(folder), no_document, (OWNER,), signature_valid)(manifest)
        except RemoteProtocolError:
            return False
        return True

    def _weights(self, device: Device) -> Iterable[Leak]:
        people, gains = self._people("weights"), []
        constant = self._constant_state()
        state = self._state_of(constant)
        for person in people:
            usual = np.linalg.norm(self._rows(device, person, self.scene.weights), axis=1)
            crafted = self._rows(device, person, constant) @ state
            gains.append(self._named(crafted, person) - self._named(usual, person))
        yield self._leak("weights", False, gains)

    def _constant_state(self) -> Vector:
        """Weights whose state does not depend on what was read."""
        layout, hidden = self.scene.layout, self.scene.shape.hidden
        tensors = {name: values.copy() for name, values in layout.unflatten(self.scene.weights).items()}
        for name in ("input_kernel", "recurrent_kernel"):
            tensors[name][:] = 0.0
        tensors["gate_bias"][:] = OPEN_GATE
        tensors["gate_bias"][:hidden] = SHUT_GATE  # forget
        return layout.flatten(tensors)

    def _state_of(self, weights: Vector) -> Vector:
        """The constant state, (D,) float32."""
        model = weights_of(weights, self.scene.layout)
        hidden, width = model.projection.shape
        return advance(model, BOS, np.zeros(width, np.float32), np.zeros(hidden, np.float32))[1]

    def _named(self, scores: Vector, person: int) -> float:
        """The share of a person's words among as many words with the highest scores (V,)."""
        typed = np.unique(self.scene.device.batches[person].y)
        typed = typed[typed >= FIRST_WORD]
        best = FIRST_WORD + np.argsort(-scores[FIRST_WORD:], kind="stable")[: typed.size]
        return float(np.isin(typed, best).mean())

    def _rows(self, device: Device, person: int, weights: Vector) -> Vector:
        """The rows of the embedding in a person's report, (V, D) float32."""
        return self.scene.layout.unflatten(self._update(device, person, weights))["embedding"]

    def _update(self, device: Device, person: int, weights: Vector) -> Vector:
        reported, _ = train_client(device, person, ROUND, weights, None, measured=False)
        return reported.update.dense() if isinstance(reported.update, Sparse) else reported.update

    def _read_in_order(self, device: Device, person: int) -> float:
        """The share of a person's three-word sequences that the crafted program's reader finds in the report."""
        from nightjar.benchmarks.attack.crafted_program import read_ids

        rows = read_ids(self._update(device, person, self.scene.weights), self.scene.shape, self.scene.vocabulary.size)
        typed = _triples(self.scene.device.batches[person].y.reshape(-1, self.scene.shape.sequence_length).tolist())
        return len(typed & _triples(rows)) / max(len(typed), 1)

    def _people(self, what: str) -> list[int]:
        return [int(seeded(self.scene.seed, what, each).integers(self.scene.group)) for each in range(self.seeds)]

    def _leak(self, attack: str, mended: bool, gains: Sequence[float]) -> Leak:
        gain, low, high = interval(gains)
        return Leak(attack=attack, defence="none", cohort=1, mended=mended, gain=gain, gain_low=low, gain_high=high)


def _triples(rows: Sequence[Sequence[int]]) -> set[Triple]:
    """Three words that follow each other."""
    return {
        (a, b, c)
        for row in rows
        for a, b, c in zip(row, row[1:], row[2:], strict=False)
        if min(a, b, c) >= FIRST_WORD > EOS
    }
