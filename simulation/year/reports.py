"""Follows every report from a device to a round, outside the coordinator: none may be lost or counted twice.

It sees the receipts that the coordinator publishes, the reports that a worker was given, and the rounds that ended. It
forgets a round when it has ended, so a year needs no more memory than a day.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from nightjar.coordinator.records.jobs import AggregationJob
from nightjar.coordinator.rounds.round import Phase
from nightjar.edge_agent.core.stored import NewReport
from nightjar.wire import messages, topics
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Receipt, Verdict
from nightjar.wire.secure_sum.masks import Words

ReportKey = tuple[DeviceId, int]
"""Device and attempt."""
SLOT_S = 900.0
"""A round is expected in each quarter of an hour."""
REMEMBERED_ROUNDS = 50
"""Ended rounds whose reports are remembered, for receipts that are sent again."""


def missed(ends_s: list[float], until_s: float) -> int:
    """Quarters of an hour in which no round was committed; the rounds ended at these times.

    >>> missed([100.0, 1700.0, 1790.0], 3600.0)
    2
    """
    return int(until_s / SLOT_S) - len({int(end_s / SLOT_S) for end_s in ends_s if end_s < until_s})


class ReportBook:
    """What became of the reports."""

    def __init__(self) -> None:
        self._accepted: defaultdict[int, set[ReportKey]] = defaultdict(set)
        self._averaged: dict[int, tuple[ReportKey, ...]] = {}
        self._in_a_mean: defaultdict[int, Counter[DeviceId]] = defaultdict(Counter)
        self._over: dict[int, Phase] = {}
        self.produced_by_device: Counter[DeviceId] = Counter()
        self.accepted_by_device: Counter[DeviceId] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.commits_s: list[float] = []
        self.abandoned = 0
        self.lost: list[tuple[int, DeviceId, int]] = []
        self.twice: list[tuple[int, DeviceId]] = []

    def produced(self, device: DeviceId, report: NewReport) -> None:  # noqa: ARG002 - the port's signature
        """Note that a device stored a report in its outbox."""
        self.produced_by_device[device] += 1

    def contributed(self, device: DeviceId, report: NewReport, words: Words) -> None:
        """Nothing: the task of a year has no secure sums."""

    def published(self, topic: str, payload: bytes) -> None:
        """Note a message that the coordinator published."""
        if not topic.endswith("/receipt"):
            return
        place = topics.parse(topic)
        receipt = messages.decode("receipt", payload)
        if not isinstance(place, topics.DownTopic) or not isinstance(receipt, Receipt):
            return
        self.verdicts[receipt.verdict.value] += 1
        if receipt.verdict is not Verdict.ACCEPTED:
            return
        key = (place.device, receipt.attempt)
        if key in self._accepted[receipt.round]:
            return
        self._accepted[receipt.round].add(key)
        self.accepted_by_device[place.device] += 1
        if receipt.round in self._over:
            self._check(receipt.round, {key})

    def averaged(self, job: AggregationJob) -> None:
        """Note the reports that a worker was given; if a job is done again, the last time counts."""
        self._averaged[job.round] = tuple((each.device, each.attempt) for each in job.reports)

    def over(self, number: int, phase: Phase, now_s: float) -> None:
        """Note that a round ended."""
        if number in self._over:
            return
        self._over[number] = phase
        if phase is Phase.COMMITTED:
            self.commits_s.append(now_s)
            counted = self._in_a_mean[number]
            counted.update(device for device, _ in self._averaged.get(number, ()))
            self.twice += [(number, device) for device, times in counted.items() if times > 1]
        else:
            self.abandoned += 1
        self._check(number, self._accepted[number])
        for old in [each for each in self._over if each < number - REMEMBERED_ROUNDS]:
            del self._over[old]
            for kept in (self._accepted, self._averaged, self._in_a_mean):
                kept.pop(old, None)

    def _check(self, number: int, accepted: set[ReportKey]) -> None:
        """A report that was accepted is in the mean of its round, if the round has one."""
        if self._over[number] is Phase.COMMITTED:
            self.lost += [(number, *key) for key in sorted(accepted - set(self._averaged.get(number, ())))]
