"""Reads the stored reports of a round for the worker, one at a time.

They were checked on arrival (:mod:`nightjar.coordinator.rounds.report_checks`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import msgspec

from nightjar.coordinator.learning.device_metrics import Tally, keystrokes, merged, tally
from nightjar.coordinator.learning.fedavg import ClientUpdate
from nightjar.coordinator.learning.staleness import parse_staleness
from nightjar.coordinator.ports import PrivateStore
from nightjar.coordinator.records.jobs import AggregationJob, FiguresJob, ReportFile
from nightjar.wire import frame
from nightjar.wire.errors import IntegrityError, RemoteProtocolError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.secure_sum.messages import MaskedUpdate, decode_up


class ReportReader:
    """The reports of a round. Each is read once, when it is averaged; after that only what it measured is kept."""

    def __init__(self, job: AggregationJob, private: PrivateStore) -> None:
        self._job, self._private = job, private
        self._without_update: dict[DeviceId, frame.Report] = {}

    def updates(self) -> list[ClientUpdate]:
        """The updates."""
        factor = parse_staleness(self._job.staleness)
        return [
            ClientUpdate(each.device, each.num_examples, partial(self._payload, each), factor(each.staleness))
            for each in self._job.reports
        ]

    def figures(self, unreadable: Collection[DeviceId]) -> Tally:
        """What the devices in the mean measured of the base version; a late report measured an earlier one."""
        current = [each for each in self._job.reports if not each.staleness and each.device not in unreadable]
        return measured([self._without_update[each.device] for each in current])

    def _payload(self, stored: ReportFile) -> bytes:
        report = read_report(self._job, stored, self._private)
        self._without_update[stored.device] = msgspec.structs.replace(report, payload=b"")
        return report.payload


def measured(reports: Sequence[frame.Report], *, trained: bool = True) -> Tally:
    """What the devices of these reports measured."""
    evaluations = (each.evaluation for each in reports if each.evaluation is not None)
    keyboards = (each.keyboard for each in reports if each.keyboard is not None)
    return merged(tally(evaluations, trained=trained), keystrokes(keyboards))


def masked_updates(job: AggregationJob, private: PrivateStore) -> Iterator[bytes]:
    """The masked updates of a secure sum."""
    for stored in job.reports:
        update = decode_up(read_report(job, stored, private).payload)
        if isinstance(update, MaskedUpdate):
            yield update.values


def read_report(job: AggregationJob | FiguresJob, stored: ReportFile, private: PrivateStore) -> frame.Report:
    """A stored report.

    Raises:
        IntegrityError: it can no longer be read, so it was damaged on disk.
    """
    whose = f"the stored report of {stored.device} in round {job.round}"
    try:
        report = frame.decode(private.frame(job.round, stored.device, stored.attempt))
    except RemoteProtocolError as error:
        msg = f"{whose} is damaged: {error}"
        raise IntegrityError(msg) from error
    if not isinstance(report, frame.Report):
        msg = f"{whose} is a chunk"
        raise IntegrityError(msg)
    return report
