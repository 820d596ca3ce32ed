"""The outcome of an experiment over its seeds, and tables that compare several."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from rich.table import Table

from nightjar.simulation.laboratory.checkpoint import Point
from nightjar.simulation.laboratory.personalisation import Personalised


class TimeTaken(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated time of an experiment: means over its seeds."""

    hours: float  # of the whole run
    device_seconds: float  # time that devices worked, seconds
    wasted_seconds: float  # of these, the time of work whose report did not count
    hours_to_first: float | None  # until top-1 first was that of the first variant's end; None if a seed's never was
    device_seconds_to_first: float | None  # time that devices had worked by then, seconds


class Saved(msgspec.Struct, frozen=True):
    """Keystrokes that people's keyboards save, percent: the mean over people, and its standard error; None for one."""

    people: int
    mean: float
    error: float | None

    @classmethod
    def of(cls, percents: Iterable[float]) -> Saved:
        """The mean of the figures of at least one person.

        >>> Saved.of([30.0, 40.0])
        Saved(people=2, mean=35.0, error=5.0)
        """
        given = list(percents)
        error = statistics.stdev(given) / len(given) ** 0.5 if len(given) > 1 else None
        return cls(len(given), statistics.fmean(given), error)


class Versions(msgspec.Struct, frozen=True):
    """What a gate made of the versions of a run.

    Attributes:
        announced: the versions that keyboards got, in order; 0 is the start.
        paused: why the run was paused; empty if it was not.
        own: version -> keystrokes saved on the messages that devices hold back, by which versions are chosen.
        later: the same, of the first and the last announced version, on later messages, by which none is chosen.
    """

    announced: list[int]
    paused: str
    own: dict[int, Saved]
    later: dict[int, Saved]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an experiment: means over its seeds; recall from 0 to 1, of the part that was measured.

    The references are None unless they were asked for, and ``personalisation`` is empty; else it has a list for each
    seed. ``bytes_down_median`` is for a device that holds the version before. ``time`` is None if nothing takes time.
    With a gate the next four have a value for each seed (:class:`Versions`), else they are empty.
    """

    experiment: str
    model: str
    parameters: int
    rounds: int
    seeds: list[int]
    part: str
    top1_start: float
    top1: float
    top3: float
    top1_spread: float
    held_out_top1: float | None
    held_out_top3: float | None
    perplexity: float
    trigram_top1: float | None
    trigram_top3: float | None
    trigram_held_out_top1: float | None = None
    central_top1: float | None
    central_top3: float | None
    central_held_out_top1: float | None = None
    personalisation: list[list[Personalised]] = []
    announced_versions: list[list[int]] = []
    paused_reason: list[str] = []
    own_keystrokes_saved: list[dict[int, Saved]] = []
    later_keystrokes_saved: list[dict[int, Saved]] = []
    report_bytes_median: int
    bytes_down_median: int
    executor: str
    workers: int
    seconds: float
    time: TimeTaken | None = None


def time_taken(curves: Sequence[Sequence[Point]], first: Sequence[Sequence[Point]]) -> TimeTaken | None:
    """The time that a variant took, from the curves of its seeds; None if nothing takes time.

    ``first`` are the curves of the first variant, with the same seeds.
    """
    ends = [_time(curve[-1]) for curve in curves]
    if not all(curve[-1].hours for curve in curves):
        return None
    reached = [_when(curve, other[-1].top1) for curve, other in zip(curves, first, strict=True)]
    known = [when for when in reached if when is not None]
    hours, device_s = np.mean(known, axis=0)[:2].tolist() if len(known) == len(reached) else (None, None)
    whole = np.mean(ends, axis=0).tolist()
    return TimeTaken(
        hours=whole[0],
        device_seconds=whole[1],
        wasted_seconds=whole[2],
        hours_to_first=hours,
        device_seconds_to_first=device_s,
    )


def _time(point: Point) -> list[float]:
    return [value or 0.0 for value in point.time_spent()]


def _when(curve: Sequence[Point], top1: float) -> list[float] | None:
    """The time at which a curve first reached a recall, in a straight line between its points; None if never."""
    for before, after in itertools.pairwise(curve):
        if before.top1 < top1 <= after.top1:
            done = (top1 - before.top1) / (after.top1 - before.top1)
            return [a + done * (b - a) for a, b in zip(_time(before), _time(after), strict=True)]
    return None


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """What was learned."""
    table = Table("experiment", "top-1 start", "top-1", "top-3", "held out", "perplexity", "report", "seconds")
    for each in outcomes:
        table.add_row(
            each.experiment,
            f"{100 * each.top1_start:.2f}",
            f"{100 * each.top1:.2f}" + (f" ± {50 * each.top1_spread:.2f}" if len(each.seeds) > 1 else ""),
            f"{100 * each.top3:.2f}",
            "-" if each.held_out_top1 is None else f"{100 * each.held_out_top1:.2f}",
            f"{each.perplexity:.1f}",
            f"{each.report_bytes_median:,} B",
            f"{each.seconds:.0f}",
        )
    return table


def personal_table(outcomes: Sequence[Outcome]) -> Table:
    """What people gain by models of their own."""
    table = Table("experiment", "method", "people", "top-1 before", "top-1", "mean gain", "worse by a point", "kept")
    for outcome in outcomes:
        for seed, methods in zip(outcome.seeds, outcome.personalisation, strict=True):
            for each in methods:
                table.add_row(
                    f"{outcome.experiment}, seed {seed}",
                    each.method,
                    f"{each.people}",
                    f"{100 * each.top1_before:.2f}",
                    f"{100 * each.top1:.2f}",
                    f"{100 * each.mean_gain:+.2f} ± {100 * each.gain_error:.2f}",
                    f"{100 * each.worse_share:.0f} %",
                    f"{100 * each.kept_share:.0f} %",
                )
    return table


def version_table(outcomes: Sequence[Outcome]) -> Table:
    """What keyboards got, and what it saves their people: in the messages held back, and in later ones."""
    table = Table("experiment", "announced", "held back, first", "last", "later, first", "last", "paused")
    for outcome in outcomes:
        every = zip(
            outcome.seeds,
            outcome.announced_versions,
            outcome.own_keystrokes_saved,
            outcome.later_keystrokes_saved,
            outcome.paused_reason,
            strict=False,
        )
        for seed, announced, own, later, paused in every:
            shown = [each[version] for each in (own, later) for version in (announced[0], announced[-1])]
            saved = [f"{each.mean:.2f} ± {each.error or 0:.2f} %" for each in shown]
            table.add_row(f"{outcome.experiment}, seed {seed}", f"{len(announced)}", *saved, paused or "-")
    return table


def time_table(outcomes: Sequence[Outcome]) -> Table:
    """What time it took, and how soon each variant was as good as the first at its end."""
    table = Table("experiment", "hours", "versions an hour", "device hours", "wasted", "hours to the first's top-1")
    for each in outcomes:
        if (time := each.time) is not None:
            table.add_row(
                each.experiment,
                f"{time.hours:.2f}",
                f"{each.rounds / time.hours:.1f}",
                f"{time.device_seconds / 3600:.1f}",
                f"{100 * time.wasted_seconds / time.device_seconds:.0f} %",
                "-" if time.hours_to_first is None else f"{time.hours_to_first:.2f}",
            )
    return table
