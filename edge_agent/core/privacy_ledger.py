"""A device's own ledger of differential privacy: what it has promised away, by task, and when it stops. Pure.

A task's whole epsilon is charged when the device first takes part, because each report may be followed by all the
others that the task allows. Several tasks add up (basic composition). The figures are those of the coordinator's signed
terms. Evaluations have no noise, so a device makes none under a promise, and its reports hold no figures beside the
update. Where the coordinator adds the noise, one that lies about the terms sees the reports anyway; where the device
adds it, inside a secure sum, the device checks that the noise suits them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from nightjar.wire.limits import Limits
from nightjar.wire.messages import Assignment, PrivacyTerms, Work
from nightjar.wire.secure_sum.discrete_gaussian import LEAST_VARIANCE, rounded_norm
from nightjar.wire.secure_sum.terms import honest_devices


class LedgerEntry(msgspec.Struct, frozen=True):
    """What a device has spent in a task: the terms of its newest report, and how many it made."""

    task: str
    terms: PrivacyTerms
    reports: int


def charged(entries: Sequence[LedgerEntry], assignment: Assignment) -> LedgerEntry | None:
    """The task's new entry after a report of this assignment; None if the assignment promises nothing."""
    if assignment.privacy is None:
        return None
    before = _entry(entries, assignment.task)
    return LedgerEntry(assignment.task, assignment.privacy, 1 if before is None else before.reports + 1)


LOST = LedgerEntry("", PrivacyTerms(epsilon=1e6, delta=0.5, rounds=1, separation=1, step=0), 0)
"""Stands in a ledger for entries that were lost: nobody knows what was spent."""


def higher(before: LedgerEntry | None, entry: LedgerEntry) -> LedgerEntry:
    """Of two entries of a task, what was spent at least.

    >>> terms = PrivacyTerms(epsilon=8.0, delta=1e-6, rounds=100, separation=10, step=4)
    >>> later = msgspec.structs.replace(terms, step=14)
    >>> higher(LedgerEntry("a", later, 1), LedgerEntry("a", terms, 2)) == LedgerEntry("a", later, 2)
    True
    """
    if before is None:
        return entry
    newer, older = (entry, before) if entry.terms.step >= before.terms.step else (before, entry)
    return LedgerEntry(
        entry.task,
        msgspec.structs.replace(newer.terms, epsilon=max(newer.terms.epsilon, older.terms.epsilon)),
        max(entry.reports, before.reports),
    )


def spent(entries: Sequence[LedgerEntry]) -> float:
    """Epsilon of all tasks together."""
    return sum(entry.terms.epsilon for entry in entries if entry != LOST)


def faults(entries: Sequence[LedgerEntry], assignment: Assignment, limits: Limits) -> list[str]:
    """Why a device does not make a report of this assignment.

    >>> terms = PrivacyTerms(epsilon=8.0, delta=1e-6, rounds=100, separation=10, step=4)
    >>> again = msgspec.structs.replace(terms, step=13)
    >>> from nightjar.wire.identifiers import Sha256
    >>> from nightjar.wire.messages import CodecChoice, TrainingPlan
    >>> plan = TrainingPlan(learning_rate=1.0, clip_norm=1.0)
    >>> order = Assignment(task="a", round=9, attempt=1, version=1, manifest=Sha256("0" * 64), codec=CodecChoice(),
    ...     plan=plan, report_deadline_s=60.0, privacy=again)
    >>> faults([LedgerEntry("a", terms, 1)], order, Limits())
    ['privacy: it made a report in round 4 of the task, and may again from 14 on, got 13']
    """
    terms = assignment.privacy
    if terms is None:
        return []
    found = []
    if LOST in entries:
        found.append("privacy: what this device had spent was lost with its ledger, so it spends no more")
    if assignment.work is not Work.TRAIN or assignment.plan.evaluation_share or assignment.plan.keystrokes:
        found.append("privacy: expected training only, because what an evaluation counts has no noise")
    before = _entry(entries, assignment.task)
    if terms.step >= terms.rounds:
        found.append(f"privacy: the task ends after {terms.rounds} rounds, got round {terms.step}")
    if before is not None:
        kept = before.terms
        if msgspec.structs.replace(terms, step=kept.step) != kept:
            found.append(f"privacy: the terms of the task {assignment.task} changed")
        elif terms.step < kept.step + kept.separation:
            found.append(
                f"privacy: it made a report in round {kept.step} of the task, and may again from "
                f"{kept.step + kept.separation} on, got {terms.step}"
            )
    others = spent([entry for entry in entries if entry.task != assignment.task])
    if limits.epsilon is not None and others + terms.epsilon > limits.epsilon:
        found.append(
            f"privacy: expected an epsilon of at most {limits.epsilon:g} in all, {others:g} is spent and the task has "
            f"{terms.epsilon:g}"
        )
    return found


def noise_faults(assignment: Assignment, values: int) -> list[str]:
    """Why the noise that a device is to add in a secure sum would not keep the promise.

    With D as the sensitivity, n as the honest devices of a sum and s^2 as the variance, P reports are ``P D^2 / (2 n
    s^2)``-zCDP (:mod:`nightjar.coordinator.learning.privacy.distributed`). From that epsilon follows as in
    dp-accounting, which is too heavy for a device.

    ``values`` is the length of the update in the sum.

    Source: Canonne, Kamath and Steinke 2020, proposition 12, for epsilon.
    """
    order, terms = assignment.secure_sum, assignment.privacy
    if order is None or (terms is None and not order.noise_variance):
        return []
    if terms is None or not order.noise_variance:
        return ["privacy: expected noise in the secure sum and a promise of epsilon, got one without the other"]
    honest = honest_devices(assignment.minimum, order.threshold)
    if honest < 1 or order.noise_variance < LEAST_VARIANCE:
        return [f"privacy: expected a noise_variance of at least {LEAST_VARIANCE}, got {order.noise_variance}"]
    sensitivity = rounded_norm(order.clip_norm / order.grid.step, values)
    reports = -(-terms.rounds // terms.separation)
    rho = reports * sensitivity * sensitivity / (2 * honest * order.noise_variance)
    epsilon = min(
        rho * alpha + math.log1p(-1 / alpha) - math.log(terms.delta * alpha) / (alpha - 1) for alpha in _ORDERS
    )
    if epsilon <= terms.epsilon * (1 + _ROUNDING):
        return []
    return [f"privacy: the noise in the secure sum gives epsilon {epsilon:.3g}, and {terms.epsilon:g} was promised"]


_ORDERS = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(11, 64), 128, 256, 512, 1024)
_ROUNDING = 1e-6


def _entry(entries: Sequence[LedgerEntry], task: str) -> LedgerEntry | None:
    return next((entry for entry in entries if entry.task == task), None)
