"""Measures what malicious devices do to the model, over rounds of the product's own training and averaging."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from nightjar.benchmarks.attack.defences import Defence, SentUpdate, sent
from nightjar.benchmarks.attack.malicious import (
    BACKDOOR_EPOCHS,
    BACKDOORS,
    TRIGGER,
    Attack,
    Situation,
    forged,
    seats,
    shifted,
    trigger_batch,
    with_backdoor,
)
from nightjar.benchmarks.attack.scene import Scene
from nightjar.edge_agent.core.prediction import score, weights_of
from nightjar.simulation.laboratory.clients import train_client
from nightjar.simulation.warm_start import seeded
from nightjar.wire.codec import Sparse, codec_for
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.parameters import Vector

TRIGGERED = 160
"""Sentences in which the backdoor is tried."""


class Harm(msgspec.Struct, frozen=True, kw_only=True):
    """The model after the last round of a run; shares from 0 to 1."""

    attack: str
    share: float  # of malicious devices in a cohort
    defence: str
    top1: float  # recall on later messages of the people who train
    backdoor_success: float  # share of the triggered sentences with the attacker's word among the three suggestions
    honest_refused: float  # share of the honest devices' updates that the aggregation left out
    rounds: int
    cohort: int  # devices in each round


@dataclass(frozen=True, slots=True, eq=False)
class Battle:
    """A federated training in which some seats of each cohort are malicious."""

    scene: Scene
    rounds: int
    cohort: int

    def harm(self, attack: Attack, share: float, defence: Defence, ended: Callable[[], None]) -> Harm:
        """Train, and measure the last version; ``ended`` is called after each round."""
        scene = self.scene
        weights, state = scene.weights, defence.first_state(scene.layout)
        device = defence.applied_to(scene.device)
        kept: dict[int, Vector | None] = {}
        refused = honest = 0
        for number in range(1, self.rounds + 1):
            draw = seeded(scene.seed, "cohort", number)
            people = draw.choice(scene.group, self.cohort, replace=False).tolist()
            malicious = [] if attack is Attack.NONE else people[: seats(share, self.cohort, number)]
            if attack is Attack.MODEL_REPLACEMENT and number < self.rounds:
                malicious = []
            reports = []
            for person in sorted(set(people) - set(malicious)):
                reported, kept[person] = train_client(device, person, number, weights, kept.get(person), measured=False)
                reports.append(sent(reported))
            names = {report.device for report in reports}
            reports += self._malicious(attack, malicious, number, weights, defence)
            averaged, state = defence.average(reports, weights, scene.layout, state, number)
            weights = averaged.weights
            honest += len(names)
            refused += len(names.intersection(averaged.left_out))
            ended()
        top1, success = self._measured(weights)
        return Harm(
            attack=attack.value,
            share=share,
            defence=defence.name,
            top1=top1,
            backdoor_success=success,
            honest_refused=refused / max(1, honest),
            rounds=self.rounds,
            cohort=self.cohort,
        )

    def _malicious(
        self, attack: Attack, people: list[int], number: int, weights: Vector, defence: Defence
    ) -> list[SentUpdate]:
        scene, codec = self.scene, codec_for(defence.codec)
        reports: list[SentUpdate] = []
        read: Sparse | Vector
        for person in people:
            generator = seeded(scene.seed, "malicious", number, person)
            if attack is Attack.SYBILS and reports:
                read, num_examples = reports[0].update, reports[0].num_examples
            else:
                update, num_examples = self._trained(Attack.NONE, person, number, weights)
                there = Situation(float(np.linalg.norm(update)), self.cohort / len(people))
                if attack in BACKDOORS or attack is Attack.LABEL_SHIFT:
                    update, _ = self._trained(attack, person, number, weights)
                read = codec.write(forged(attack, update, there, generator), scene.layout, generator).sent
            name = f"sybil-{number}-{person:06d}" if attack is Attack.SYBILS else f"person-{person:06d}"
            reports.append(SentUpdate(DeviceId(name), num_examples, read, honest=False))
        return reports

    def _trained(self, attack: Attack, person: int, number: int, weights: Vector) -> tuple[Vector, int]:
        """A malicious device's update before it is forged, (n,) float32, and its number of examples."""
        scene = self.scene
        device = scene.device
        if attack in BACKDOORS:
            plan = msgspec.structs.replace(device.plan, local_epochs=BACKDOOR_EPOCHS)
            device = replace(scene.typing(person, with_backdoor(scene.texts[person], self.word)), plan=plan)
        elif attack is Attack.LABEL_SHIFT:
            moved = list(device.batches)
            moved[person] = shifted(device.batches[person], scene.vocabulary.size)
            device = replace(device, batches=tuple(moved))
        reported, _ = train_client(device, person, number, weights, None, measured=False)
        assert isinstance(reported.update, np.ndarray), "the scene's device sends dense updates"
        return reported.update, reported.num_examples

    @property
    def word(self) -> str:
        """The attacker's word: one of middling frequency."""
        return self.scene.vocabulary.word(self.scene.vocabulary.size // 2)

    def _measured(self, weights: Vector) -> tuple[float, float]:
        scene = self.scene
        model, vocabulary = weights_of(weights, scene.layout), scene.vocabulary
        parts = [score(model, x, y) for x, y in scene.measured]
        prefixes = [vocabulary.encode(message) for message in scene.later[:TRIGGERED]]
        x, y = trigger_batch(
            prefixes, vocabulary.encode(TRIGGER), vocabulary.id_of(self.word), scene.shape.sequence_length
        )
        triggered = score(model, x, y)
        top1 = sum(part.top1 for part in parts) / sum(part.counted for part in parts)
        return top1, triggered.top3 / triggered.counted
