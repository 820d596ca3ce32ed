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

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nightjar.benchmarks.attack.crafted_weights import constant_state, state_of
from nightjar.benchmarks.attack.gains import embedding_of, gain_of, lengths_of, named, people_of
from nightjar.benchmarks.attack.measure_leaks import Leak
from nightjar.benchmarks.attack.scene import Scene
from nightjar.edge_agent.core.owners import ProgramOwner
from nightjar.edge_agent.shell.owned_programs import OwnedPrograms, no_document
from nightjar.edge_agent.shell.signatures import signature_valid
from nightjar.edge_agent.shell.tflite import TfliteProgram
from nightjar.models.folder import MINIMUM_AGENT_VERSION
from nightjar.models.manifest import Artifact, Manifest
from nightjar.models.vocabulary import EOS, FIRST_WORD
from nightjar.simulation.laboratory.clients import Device, train_client
from nightjar.wire.codec import Sparse
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.limits import Limits
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import Vector

ROUND = 1
OWNER = ProgramOwner(frozenset({"0" * 64}))
"""Somebody whose key the coordinator does not have."""

Triple = tuple[int, int, int]


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
        people = people_of(scene, "program", self.seeds)
        honest = [self._read_in_order(device, person) for person in people]
        for mended in (False, True):
            computes = not mended or self._allowed(program)
            crafted = device
            if computes:
                loaded = TfliteProgram(program, scene.weights, scene.layout)
                crafted = replace(device, program=loaded)
            read = [self._read_in_order(crafted, person) for person in people] if computes else honest
            gains = [one - other for one, other in zip(read, honest, strict=True)]
            yield gain_of("program", "none", 1, gains, mended=mended)

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
        scene, gains = self.scene, []
        constant = constant_state(scene)
        state = state_of(scene, constant)
        for person in people_of(scene, "weights", self.seeds):
            usual = lengths_of(scene, self._update(device, person, scene.weights))
            crafted = embedding_of(scene, self._update(device, person, constant)) @ state
            gains.append(named(scene, crafted, person) - named(scene, usual, person))
        yield gain_of("weights", "none", 1, gains, mended=False)

    def _update(self, device: Device, person: int, weights: Vector) -> Vector:
        reported, _ = train_client(device, person, ROUND, weights, None, measured=False)
        return reported.update.dense() if isinstance(reported.update, Sparse) else reported.update

    def _read_in_order(self, device: Device, person: int) -> float:
        """The share of a person's three-word sequences that the crafted program's reader finds in the report."""
        from nightjar.benchmarks.attack.crafted_program import read_ids

        rows = read_ids(self._update(device, person, self.scene.weights), self.scene.shape, self.scene.vocabulary.size)
        typed = _triples(self.scene.device.batches[person].y.reshape(-1, self.scene.shape.sequence_length).tolist())
        return len(typed & _triples(rows)) / max(len(typed), 1)


def _triples(rows: Sequence[Sequence[int]]) -> set[Triple]:
    """Three words that follow each other."""
    return {
        (a, b, c)
        for row in rows
        for a, b, c in zip(row, row[1:], row[2:], strict=False)
        if min(a, b, c) >= FIRST_WORD > EOS
    }
