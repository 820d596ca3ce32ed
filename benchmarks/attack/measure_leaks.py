"""Measures what one report, or the difference of two versions, gives away.

The devices train one round from the warm start, with the product's program, codec and averaging. Whoever holds a
report, or both versions, then attacks; shadows show the attacker how words look in an update. Sums need bases, which
follow the updates of earlier rounds: here those of shadows.

Sources of the attack on membership: Yeom et al. 2018, "Privacy Risk in Machine Learning", adversary 1, for the loss;
the loss before the round calibrates it, as in Watson et al. 2022, "On the Importance of Difficulty Calibration in
Membership Inference Attacks".
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from nightjar.benchmarks.attack import canary, recover_words
from nightjar.benchmarks.attack.defences import Defence, RoundState, sent
from nightjar.benchmarks.attack.recover_words import Flags, Floats
from nightjar.benchmarks.attack.scene import Scene, disjoint
from nightjar.edge_agent.core.prediction import score, weights_of
from nightjar.models.batches import Batches
from nightjar.models.vocabulary import FIRST_WORD
from nightjar.simulation.laboratory.clients import Reported, train_client
from nightjar.simulation.warm_start import seeded
from nightjar.wire.codec import Sparse
from nightjar.wire.messages import CodecChoice, TrainingPlan
from nightjar.wire.parameters import Vector

COHORTS = (2, 5, 20, 100)
ROUND = 1
EARLIER_SUMS = 10
TRIALS = 10
"""Cohorts of each size whose members are looked for; the words of more are recovered."""
WORD_TRIALS = 50
OTHERS = 10
"""Outsiders among whom a small cohort's members are looked for."""
TRIED_BATCHES = 3
"""Batches of a person's text on which the loss is compared."""


class Leak(msgspec.Struct, frozen=True, kw_only=True):
    """What one attack got: shares and AUC from 0 to 1, exposure in bits; those of other attacks are missing."""

    attack: str
    defence: str
    cohort: int  # devices whose updates were averaged; 1 for a single report
    precision: float | UnsetType = UNSET  # share of the named words that were typed
    recall: float | UnsetType = UNSET  # share of the typed words that were named
    auc: float | UnsetType = UNSET  # probability that a member looks more like one than an outsider
    exposure: float | UnsetType = UNSET  # of a canary
    mended: bool | UnsetType = UNSET  # of a coordinator that lies: whether devices make the check that stops it
    gain: float | UnsetType = UNSET  # what it learns beyond an honest one of the same mode, with a 95 % interval
    gain_low: float | UnsetType = UNSET
    gain_high: float | UnsetType = UNSET
    guess_recall: float | None = None  # recall of naming equally many of the commonest words; None for other attacks


@dataclass(frozen=True, slots=True, eq=False)
class LeakMeter:
    """An attacker who sees single reports or the versions before and after a round.

    The tables are filled as needed; what was trained is shared by defences with one codec and plan.
    """

    scene: Scene
    trained: dict[tuple[tuple[CodecChoice, TrainingPlan], int], Reported] = field(
        default_factory=dict
    )  # shared by defences
    losses: dict[int, float] = field(default_factory=dict)  # each person's before the round
    states: dict[tuple[str, int], RoundState] = field(default_factory=dict)  # before the round, by defence and cohort

    def leaks(self, defence: Defence, got: Callable[[Leak], None]) -> list[Leak]:
        """All attacks on one defence; ``got`` is told each as it ends."""
        found = []
        for cohort in (1, *(size for size in COHORTS if size <= self.scene.group)):
            for attack in (self._words, self._members, self._canary):
                found.append(attack(defence, cohort))
                got(found[-1])
        return found

    def _words(self, defence: Defence, cohort: int) -> Leak:
        shadows, targets = (
            disjoint(people, cohort, WORD_TRIALS, self.scene.seed, what)
            for people, what in ((self.scene.shadows, "shadows"), (self.scene.members, "words"))
        )
        attack = recover_words.fit(
            [self._features(defence, people) for people in shadows], [self._typed(people) for people in shadows]
        )
        scores = []
        for people in targets:
            named, typed = attack.named(self._features(defence, people)), self._typed(people)
            guess = recover_words.commonest(int(named.sum()), named.size)
            precision, recall = recover_words.precision_and_recall(named, typed)
            scores.append((precision, recall, recover_words.precision_and_recall(guess, typed)[1]))
        precision, recall, guessed = (statistics.fmean(each) for each in zip(*scores, strict=True))
        return _leak("words", defence, cohort, precision=precision, recall=recall, guess_recall=guessed)

    def _members(self, defence: Defence, cohort: int) -> Leak:
        found = []
        for number, people in enumerate(disjoint(self.scene.members, cohort, TRIALS, self.scene.seed, "members")):
            draw = seeded(self.scene.seed, "others", cohort, number).permutation(self.scene.group)
            others = [self.scene.outsiders[i] for i in draw[: max(OTHERS, cohort)].tolist()]
            after = self.scene.weights + self._observed(defence, self.reports(defence, people))
            found.append(auc(*([self._gain(each, after) for each in group] for group in (people, others))))
        return _leak("membership", defence, cohort, auc=statistics.fmean(found))

    def _canary(self, defence: Defence, cohort: int) -> Leak:
        scene, found = self.scene, []
        prefix = scene.vocabulary.encode(canary.PREFIX)
        rarer = np.arange(scene.vocabulary.size // 2, scene.vocabulary.size)
        for number in range(TRIALS):
            draw = seeded(scene.seed, "canary", cohort, number)
            choices = sorted(draw.choice(rarer, canary.CHOICES, replace=False).tolist())
            first, second = draw.integers(canary.CHOICES, size=2).tolist()
            people = sorted(draw.choice(scene.group, cohort, replace=False).tolist())
            secret = [scene.vocabulary.word(choices[i]) for i in (first, second)]
            typed = [*scene.texts[people[0]], *[" ".join([*canary.PREFIX, *secret])] * canary.REPEATS]
            device = defence.applied_to(scene.typing(people[0], typed))
            whose, _ = train_client(device, people[0], ROUND, scene.weights, None, measured=False)
            seen = self._observed(defence, [whose, *self.reports(defence, people[1:])])
            after, before = (
                canary.log_probabilities(weights, scene.layout, prefix, choices)
                for weights in (scene.weights + seen, scene.weights)
            )
            found.append(canary.exposure(after - before, first * canary.CHOICES + second))
        return _leak("canary", defence, cohort, exposure=statistics.fmean(found))

    def reports(self, defence: Defence, people: Sequence[int]) -> list[Reported]:
        """What these people's devices report in one round."""
        work = defence.codec, defence.plan
        for person in people:
            if (work, person) not in self.trained:
                device = defence.applied_to(self.scene.device)
                reported, _ = train_client(device, person, ROUND, self.scene.weights, None, measured=False)
                self.trained[work, person] = reported
        return [self.trained[work, person] for person in people]

    def _observed(self, defence: Defence, reports: Sequence[Reported]) -> Vector:
        """(n,) float32: the change that the attacker sees; zero where a single report is masked."""
        layout, weights = self.scene.layout, self.scene.weights
        if len(reports) > 1:
            state = self.state(defence, len(reports))
            averaged, _ = defence.average(list(map(sent, reports)), weights, layout, state, ROUND)
            return averaged.weights - weights
        if defence.privacy.summed:
            return np.zeros_like(weights)
        update = reports[0].update
        return update.dense() if isinstance(update, Sparse) else update

    def state(self, defence: Defence, cohort: int) -> RoundState:
        """The state before the round: of a sum, after rounds of shadows without a step of the model."""
        scene, key = self.scene, (defence.name, cohort)
        if key not in self.states:
            state = defence.first_state(scene.layout)
            for number in range(EARLIER_SUMS if defence.privacy.summed else 0):
                people = seeded(scene.seed, "earlier", number).choice(scene.group, cohort, replace=False).tolist()
                reports = self.reports(defence, [scene.shadows[i] for i in people])
                _, state = defence.average(list(map(sent, reports)), scene.weights, scene.layout, state, -number)
            self.states[key] = state
        return self.states[key]

    def _features(self, defence: Defence, people: Sequence[int]) -> Floats:
        embedding, start, stop = self.scene.layout.spans()[0]
        seen = self._observed(defence, self.reports(defence, people))[start:stop].reshape(embedding.shape)
        rows = seen[FIRST_WORD:]
        return recover_words.features(rows, -np.log(np.arange(1, len(rows) + 1)))

    def _typed(self, people: Sequence[int]) -> Flags:
        typed = np.zeros(self.scene.vocabulary.size, np.bool_)
        for person in people:
            typed[self.scene.device.batches[person].y] = True
        return typed[FIRST_WORD:]

    def _gain(self, person: int, after: Vector) -> float:
        """By how much the loss on a person's text falls, nats per target."""
        batches = self.scene.device.batches[person]
        if person not in self.losses:
            self.losses[person] = self._loss(batches, self.scene.weights)
        return self.losses[person] - self._loss(batches, after)

    def _loss(self, batches: Batches, weights: Vector) -> float:
        model = weights_of(weights, self.scene.layout)
        parts = [score(model, x, y) for x, y in zip(batches.x[:TRIED_BATCHES], batches.y[:TRIED_BATCHES], strict=True)]
        return sum(part.loss_sum for part in parts) / sum(part.targets for part in parts)


def auc(members: Sequence[float], others: Sequence[float]) -> float:
    """The probability that a member scores higher than another; ties count half (Mann and Whitney 1947).

    >>> auc([2.0, 1.0], [1.0, 0.0])
    0.875
    """
    ours, theirs = np.array(members)[:, None], np.array(others)[None, :]
    return float(np.mean((ours > theirs) + 0.5 * (ours == theirs)))


def _leak(what: str, defence: Defence, cohort: int, **figures: Any) -> Leak:
    seen = "one-report" if cohort == 1 else "two-versions"
    return Leak(attack=f"{what}-{seen}", defence=defence.name, cohort=cohort, **figures)
