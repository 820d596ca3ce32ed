"""Measures what a coordinator or operator gains by orders that are each allowed, and together give one device away.

Each attack is on one person at a time, with and without the check that stops it; without, the check is switched off
here. The gain is what is read beyond an honest coordinator of the same mode:

- ``inconsistency``: all devices of a secure sum but one are ordered to clip their updates to nothing, so that the sum
  is that one's update. Read are a person's distinct words, of as many that the attacker names by the rows that the
  update changes. Checked, devices with other orders are in another session, and the sum that opens is without the one.
- ``differencing``: two tasks on one version, whose cohorts differ by one device, are averaged; the difference of the
  means is its update. Read are a person's words, as before. Checked, only the first cohort is averaged.
- ``evaluation``: weights that always predict one word are evaluated, so that the recall counts the word. Read is which
  of two words of like frequency a person typed, right or wrong; the honest coordinator has the noised mean of a cohort
  that the person is in. Checked, a device with a limit of epsilon does not evaluate, whatever the order says.

Where the lie is refused, or its sum is without the person, the attacker asks as an honest coordinator does.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec.structs import replace

from nightjar.benchmarks import sum_in_process
from nightjar.benchmarks.attack.crafted_weights import always_predicting
from nightjar.benchmarks.attack.defences import average_of, defence, sent
from nightjar.benchmarks.attack.gains import gain_of, lengths_of, named, others_of, people_of, typed_by
from nightjar.benchmarks.attack.measure_leaks import ROUND, Leak, LeakMeter
from nightjar.benchmarks.attack.scene import Scene
from nightjar.benchmarks.sum_in_process import Member
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms, noised_mean
from nightjar.coordinator.learning.strategies import StrategyName, Weighting, optimizer_for
from nightjar.coordinator.learning.summed import average_of_sum, sum_order
from nightjar.coordinator.rounds.cohorts import Cohort
from nightjar.coordinator.tasks.settings import PlanConfig, Privacy, StrategyConfig, TaskSettings
from nightjar.coordinator.tasks.validation import noise_terms
from nightjar.edge_agent.core.privacy_ledger import faults
from nightjar.edge_agent.core.training import evaluate
from nightjar.host.primitives import EnrolledKey, LibraryPrimitives
from nightjar.models.keyboard import held_out
from nightjar.models.vocabulary import FIRST_WORD
from nightjar.simulation.laboratory.clients import Device, Reported, train_client
from nightjar.simulation.warm_start import seeded
from nightjar.wire.cohorts import too_close
from nightjar.wire.identifiers import Sha256
from nightjar.wire.limits import Limits, outside
from nightjar.wire.messages import Assignment, CodecChoice, PrivacyTerms, TrainingPlan, Work
from nightjar.wire.parameters import Vector
from nightjar.wire.secure_sum.low_rank import from_bytes
from nightjar.wire.secure_sum.masks import Words
from nightjar.wire.secure_sum.order import SumOrder, contribution
from nightjar.wire.secure_sum.session import terms_of_assignment

COHORT = 10
"""The smallest cohort that the default limits allow; with the person who is attacked there are eleven."""
NOISED_COHORT = 20
CLIPPED_TO_NOTHING = 1e-9
HELD_OUT = 0.5
"""Share of a person's messages that is evaluated, the largest that a plan may have."""
PAIRS = 5
"""Pairs of words that a person is asked about."""
NOISED = TaskSettings(privacy=Privacy.DP, rounds=200, minimum_separation=50, goal=NOISED_COHORT)
MANIFEST = Sha256("0" * 64)


@dataclass(frozen=True, slots=True, eq=False)
class OrderMeter:
    """A coordinator that lies in its orders; ``seeds`` people are drawn."""

    scene: Scene
    seeds: int

    def leaks(self, got: Callable[[Leak], None]) -> list[Leak]:
        """The rows; ``got`` is told each as it ends."""
        found = []
        for measure in (self._inconsistency, self._differencing, self._evaluation):
            for row in measure():
                found.append(row)
                got(row)
        return found

    # --- devices of one sum with different orders ---

    def _inconsistency(self) -> Iterable[Leak]:
        meter, scene = LeakMeter(self.scene), self.scene
        gains: dict[bool, list[float]] = {False: [], True: []}
        cohort = min(COHORT + 1, scene.group)
        for person in people_of(scene, "inconsistency", self.seeds):
            people = [person, *others_of(scene, "inconsistency", person, cohort - 1)]
            honest = self._of_a_sum(meter, people, lies=False, bound=True)
            assert honest is not None  # nobody drops out
            usual = named(scene, lengths_of(scene, honest), person)
            for mended, each in gains.items():
                update = self._of_a_sum(meter, people, lies=True, bound=mended)
                each.append(0.0 if update is None else named(scene, lengths_of(scene, update), person) - usual)
        for mended, each in gains.items():
            yield gain_of("inconsistency", Privacy.SECURE_SUM.value, cohort, each, mended=mended)

    def _of_a_sum(self, meter: LeakMeter, people: Sequence[int], *, lies: bool, bound: bool) -> Vector | None:
        """What the mean update in a sum shows, (n,) float32; None if the sum does not open, or is without the first.

        Args:
            meter: has the reports.
            people: the first is attacked.
            lies: whether all others are ordered to clip to nothing.
            bound: whether devices take part only with those that have the same orders.
        """
        scene, layout = self.scene, self.scene.layout
        made = defence(Privacy.SECURE_SUM.value, len(people))
        state = meter.state(made, len(people))
        clip_norm = state.clip_norm or PlanConfig().first_norm
        minimum = max(3, len(people) - 1)
        order = sum_order(ROUND, minimum, len(people), layout, clip_norm)
        silenced = replace(order, clip_norm=CLIPPED_TO_NOTHING) if lies else order
        orders = [order, *[silenced] * (len(people) - 1)]
        told = [terms_of_assignment(_assignment(each, minimum), layout, "people") for each in orders]
        if not bound:
            told = [replace(each, session=told[-1].session) for each in told]
        bases, spread = from_bytes(state.bases, layout, order.rank)
        members = []
        for each, reported in zip(orders, meter.reports(made, people), strict=True):
            rng = seeded(scene.seed, "sum", reported.person)
            update = sent(reported).update
            assert isinstance(update, np.ndarray)  # sums take whole updates
            words = contribution(update, reported.num_examples, each, layout, bases, spread, rng, rng)
            members.append(_member(words, rng))
        result = sum_in_process.run(told[-1], members, LibraryPrimitives(), told=told)
        if result.total is None or 0 not in result.included:
            return None
        optimizer = optimizer_for(StrategyConfig().choice())
        count, rng = len(result.included), np.random.default_rng(0)
        found = average_of_sum(
            scene.weights,
            optimizer.init(layout.size),
            state.average,
            result.total,
            count,
            order,
            layout,
            state.bases,
            optimizer,
            rng,
        )
        return found.averaged.weights - scene.weights

    # --- two cohorts that differ by one device ---

    def _differencing(self) -> Iterable[Leak]:
        scene = self.scene
        plan = PlanConfig().plan(StrategyName.FEDSGD.value)
        codec = CodecChoice(name="topk-4", density=Limits().density)
        device = replace_fields(scene.device, plan=plan, codec=codec)
        gains: dict[bool, list[float]] = {False: [], True: []}
        cohort = min(COHORT, scene.group - 1)
        for person in people_of(scene, "differencing", self.seeds):
            others = others_of(scene, "differencing", person, cohort)
            both = [
                [_trained(device, each, number, scene.weights) for each in people]
                for number, people in enumerate(([person, *others], others), ROUND)
            ]
            for mended in gains:
                means = self._averaged(device, both, mended=mended)
                larger = means[0]
                read = larger if len(means) == 1 else len(both[0]) * larger - len(both[1]) * means[1]
                best, usual = (named(scene, lengths_of(scene, each), person) for each in (read, larger))
                gains[mended].append(best - usual)
        for mended, each in gains.items():
            yield gain_of("differencing", "none", cohort + 1, each, mended=mended)

    def _averaged(self, device: Device, cohorts: Sequence[Sequence[Reported]], *, mended: bool) -> list[Vector]:
        """The mean updates of the cohorts that may be averaged one after the other, (n,) float32."""
        former: list[Cohort] = []
        means = []
        for reports in cohorts:
            cohort = frozenset(sent(each).device for each in reports)
            if mended and too_close(cohort, former, Limits().least_cohort) is not None:
                continue
            former.append(cohort)
            means.append(self._mean(device, reports))
        return means

    def _mean(self, device: Device, reports: Sequence[Reported], noise: NoiseTerms | None = None) -> Vector:
        """The mean update, as the coordinator publishes it; unclipped and equally weighted, but for noise."""
        layout, weights = self.scene.layout, self.scene.weights
        optimizer = optimizer_for(StrategyConfig().choice())
        clip_norm = math.inf if noise is None else noise.clip_norm
        aggregate = None if noise is None else noised_mean(noise, 0, noise.clip_norm)
        updates = list(map(sent, reports))
        averaged = average_of(updates, weights, layout, device.codec, optimizer, clip_norm, aggregate, Weighting.EQUAL)
        return averaged.weights - weights

    # --- counts without noise ---

    def _evaluation(self) -> Iterable[Leak]:
        scene = self.scene
        evaluates = {False: True, True: any(not _refused(each) for each in evaluations())}
        gains: dict[bool, list[float]] = {False: [], True: []}
        cohort = min(NOISED_COHORT, scene.group)
        for person in people_of(scene, "evaluation", self.seeds):
            _, kept = held_out(scene.texts[person], HELD_OUT)
            batches = scene.packed(kept)
            pairs = self._pairs(person, set(np.unique(batches.y).tolist()))
            reports = [
                _trained(scene.device, each, ROUND, scene.weights)
                for each in (person, *others_of(scene, "evaluation", person, cohort - 1))
            ]
            noise = noise_terms(NOISED, seeded(scene.seed, "noise", person).bytes(32).hex())
            lengths = lengths_of(scene, self._mean(scene.device, reports, noise))
            honest = _right([(float(lengths[one]), float(lengths[other])) for one, other in pairs])
            counted = {word: 0.0 for pair in pairs for word in pair}
            for word in counted:
                scene.device.program.restore(always_predicting(scene, word))
                counted[word] = evaluate(scene.device.program, batches).top1
            crafted = _right([(counted[one], counted[other]) for one, other in pairs])
            for mended, each in gains.items():
                each.append(crafted - honest if evaluates[mended] else 0.0)
        for mended, each in gains.items():
            yield gain_of("evaluation", Privacy.DP.value, cohort, each, mended=mended)

    def _pairs(self, person: int, held: set[int]) -> list[tuple[int, int]]:
        """Words that a person typed, each with the word of nearest frequency that the person did not type."""
        typed = set(typed_by(self.scene, person).tolist())
        others = [word for word in range(FIRST_WORD, self.scene.vocabulary.size) if word not in typed | held]
        drawn = seeded(self.scene.seed, "pairs", person).permutation(sorted(held & typed)).tolist()
        return [(word, min(others, key=lambda other: abs(other - word))) for word in drawn[:PAIRS]]


def evaluations() -> list[Assignment]:
    """Every way in which a coordinator can order what is counted without noise."""
    terms = PrivacyTerms(epsilon=10.0, delta=1e-6, rounds=200, separation=50, step=0)
    order = _assignment(None, COHORT)
    asked = (
        replace(order, work=Work.EVALUATE),
        replace(order, plan=replace(order.plan, evaluation_share=HELD_OUT)),
        replace(order, plan=replace(order.plan, keystrokes=True)),
    )
    return [replace(each, privacy=promised) for each in asked for promised in (terms, None)]


def _refused(order: Assignment) -> bool:
    """Whether a device that was promised privacy, and limits its epsilon, refuses an order."""
    limits = Limits(epsilon=10.0)
    epsilon = None if order.privacy is None else order.privacy.epsilon
    return bool(outside(limits, order.minimum, order.codec, order.plan.max_steps, epsilon) or faults([], order, limits))


def _assignment(order: SumOrder | None, minimum: int) -> Assignment:
    return Assignment(
        task="people",
        round=ROUND,
        attempt=1,
        version=ROUND,
        manifest=MANIFEST,
        codec=CodecChoice(),
        plan=TrainingPlan(learning_rate=1.0, clip_norm=1.0),
        report_deadline_s=60.0,
        minimum=minimum,
        secure_sum=order,
    )


def _member(words: Words, rng: np.random.Generator) -> Member:
    digest = hashlib.sha256(rng.bytes(32)).digest()
    key = EnrolledKey(ec.derive_private_key(int.from_bytes(digest) >> 1, ec.SECP256R1()))
    return Member(key.public, key.sign, rng.bytes(32), words)


def _trained(device: Device, person: int, number: int, weights: Vector) -> Reported:
    return train_client(device, person, number, weights, None, measured=False)[0]


def _right(scores: Sequence[tuple[float, float]]) -> float:
    """How often the first of two scores is the higher one; a tie is a guess.

    >>> _right([(1.0, 0.0), (0.0, 0.0)])
    0.75
    """
    return sum((one > other) + 0.5 * (one == other) for one, other in scores) / max(len(scores), 1)
