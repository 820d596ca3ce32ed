"""The rules of a round: how many devices and reports it needs, and how long it waits.

The operator chooses how long a round waits for phones (``selection_deadline_s``) and how long a phone may take to train
and report (``report_deadline_s``). All other waiting times follow from these two:

================ =============================== ==================================================================
what             how long                        why
================ =============================== ==================================================================
selection window selection deadline / 60         the sample is drawn from all arrivals, not only from the first
shortest retry   selection deadline / 15         an earlier retry would get the same answer
lost grace       report deadline / 12, at most   a phone that changes networks is back within ten seconds; a short
                 10 s                            round cannot wait that long
replacement      half of the report deadline     a device that starts in the second half could hardly finish; until
                                                 then a few devices wait in reserve for a free seat
commit deadline  6 report deadlines, at least    the worker gives up a hung job within half an hour; this deadline is
                 2 h                             for a worker that does not answer at all
empty selection  selection deadline, doubled     no device is waiting, and a coordinator left alone for a weekend
                 after each one, at most 1 h     must not open thousands of rounds
================ =============================== ==================================================================

Pure values. :mod:`nightjar.coordinator.rounds.synchronous` applies them; a round keeps the rules that it was opened
with.
"""

from __future__ import annotations

import math

import msgspec

WINDOW_SHARE = 1 / 60
SHORTEST_RETRY_SHARE = 1 / 15
GRACE_SHARE = 1 / 12
LONGEST_GRACE_S = 10.0
REPLACEMENT_SHARE = 0.5
COMMIT_SHARE = 6
SHORTEST_COMMIT_S = 7200.0
LONGEST_EMPTY_SELECTION_S = 3600.0


class RoundRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one round.

    Attributes:
        goal: number of reports that ends the round at once.
        minimum: fewest devices needed to begin, and fewest reports needed to commit.
        over_selection: devices selected per report of the goal.
        selection_window_s: shortest time of SELECTION.
        selection_deadline_s: longest time that a device waits in SELECTION.
        report_deadline_s: longest time of REPORTING.
        lost_grace_s: how long a selected device may be disconnected before its seat counts as dropped.
        commit_deadline_s: longest time of COMMITTING.
        summed: the coordinator learns only the sum of the reports, so a seat that is freed stays empty.
        concurrency: most devices at work at a time in a buffered round; 0 for a synchronous one.
        max_staleness: in a buffered round, most versions published between the base of a report and its mean.
    """

    goal: int
    minimum: int
    over_selection: float
    selection_window_s: float
    selection_deadline_s: float
    report_deadline_s: float
    lost_grace_s: float
    commit_deadline_s: float = SHORTEST_COMMIT_S
    summed: bool = False
    concurrency: int = 0
    max_staleness: int = 0

    @property
    def cohort(self) -> int:
        """Devices to select: goal x over-selection, rounded up; in a buffered round, those at work at a time.

        >>> rules_for(goal=10, minimum=2, over_selection=1.3, selection_deadline_s=60, report_deadline_s=600).cohort
        13
        """
        wanted = round(self.goal * self.over_selection, 9)  # in floats, 100 x 1.1 is slightly above 110
        return self.concurrency or math.ceil(wanted)

    @property
    def reserve(self) -> int:
        """Devices that wait for a freed seat: as many as were selected beyond the goal, at least one."""
        return max(1, self.cohort - self.goal)

    def replacement_ends_s(self, deadline_s: float) -> float:
        """Until when a freed seat is given to another device; ``deadline_s`` is that of REPORTING."""
        if self.summed:  # devices share their masks at the beginning
            return -math.inf
        return deadline_s - (1 - REPLACEMENT_SHARE) * self.report_deadline_s

    def empty_selection_s(self, empty_before: int) -> float:
        """How long a selection stays open while no device checks in.

        ``empty_before`` is the number of consecutive rounds just before this one in which no device checked in.

        >>> rules = rules_for(goal=1, minimum=1, over_selection=1, selection_deadline_s=60, report_deadline_s=600)
        >>> [rules.empty_selection_s(before) for before in (0, 1, 2, 99)]
        [60.0, 120.0, 240.0, 3600.0]
        """
        longest_s = max(self.selection_deadline_s, LONGEST_EMPTY_SELECTION_S)
        return float(min(longest_s, self.selection_deadline_s * 2 ** min(empty_before, 30)))


def rules_for(
    *,
    goal: int,
    minimum: int,
    over_selection: float,
    selection_deadline_s: float,
    report_deadline_s: float,
    selection_window_s: float | None = None,
    summed: bool = False,
) -> RoundRules:
    """The rules that follow from the operator's settings; a selection window of None is derived like the other times.

    >>> rules = rules_for(goal=5, minimum=2, over_selection=1.3, selection_deadline_s=60, report_deadline_s=600)
    >>> rules.selection_window_s, rules.lost_grace_s, rules.commit_deadline_s
    (1.0, 10.0, 7200.0)
    """
    return RoundRules(
        goal=goal,
        minimum=minimum,
        over_selection=over_selection,
        selection_window_s=WINDOW_SHARE * selection_deadline_s if selection_window_s is None else selection_window_s,
        selection_deadline_s=selection_deadline_s,
        report_deadline_s=report_deadline_s,
        lost_grace_s=min(LONGEST_GRACE_S, GRACE_SHARE * report_deadline_s),
        commit_deadline_s=max(SHORTEST_COMMIT_S, COMMIT_SHARE * report_deadline_s),
        summed=summed,
    )
