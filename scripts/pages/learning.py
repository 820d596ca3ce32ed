"""Makes the tables of docs/learning.md: what a fleet of each size can expect, from recorded runs of the laboratory.

The rows of ``experiments/results.json`` that a table shows are named in :data:`RUNS`. Hours follow from the schedule of
rounds alone (:mod:`nightjar.simulation.laboratory.clock`), with the times of ``experiments/buffered.toml``.
"""

from itertools import accumulate
from pathlib import Path

import numpy as np

from nightjar.coordinator.tasks.fleets import SETTINGS, FleetSize
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.experiments.frame import ResultRow
from nightjar.experiments.record import results
from nightjar.simulation.laboratory.clock import PlannedVersion, first_to_report, seconds_of_work
from nightjar.simulation.laboratory.experiment import read_experiment
from nightjar.simulation.warm_start import seeded

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "learning.md"
BEGIN, END = "<!-- made by python -m scripts.pages -->", "<!-- end of what is made -->"
ROUNDS = (10, 100, 1000)
NEAR = 2.0
"""A run that was not measured after so many rounds is shown where it was, if that is within this factor."""
RUNS = {
    FleetSize.HOUSEHOLD: ("Chat, household: four people, 100 rounds",),
    FleetSize.HUNDREDS: ("Chat, the default task, test part: 600 rounds",),
    FleetSize.THOUSANDS: ("Chat, thousands: 100 a round",),
}
PEOPLE = {FleetSize.HOUSEHOLD: 4, FleetSize.HUNDREDS: 300, FleetSize.THOUSANDS: 3000}
"""How many devices take turns in the schedule."""
_NAMES = ("rounds", "top-1, points", "keystrokes saved, points", "report", "download", "hours", "device hours")
_COLUMNS = f"|{'|'.join(_NAMES)}|\n{'|---' * len(_NAMES)}|\n"


def page() -> str:
    """The whole page."""
    text = PAGE.read_text(encoding="utf-8")
    before, made, after = text.partition(BEGIN)
    assert made, f"{PAGE} has no {BEGIN}"
    return before + BEGIN + "\n\n" + tables() + "\n" + END + after.partition(END)[2]


def tables() -> str:
    """A table for each size."""
    rows = {each.name: each for each in results()}
    return "\n".join(_section(fleet, [rows[name] for name in names if name in rows]) for fleet, names in RUNS.items())


def _section(fleet: FleetSize, rows: list[ResultRow]) -> str:
    return f"### {fleet.value.capitalize()}\n\n{_settings(fleet)}\n\n{_COLUMNS}{''.join(_lines(fleet, rows))}"


def _settings(fleet: FleetSize) -> str:
    """The settings in words."""
    found = {name.removeprefix("task."): value for name, value in SETTINGS[fleet].items()}
    return (
        f"`{found['codec.name']}` at {100 * found['codec.density']:g} %, `{found['strategy.name']}` "
        f"{found['strategy.server_learning_rate']:g}, {found['strategy.schedule.decay']}, client rate "
        f"{found['plan.learning_rate']:g}, clip {found['plan.clip_norm']:g}, {found['goal']} reports a round, at least "
        f"{found['minimum']}, patience {found['patience']}."
    )


def _lines(fleet: FleetSize, rows: list[ResultRow]) -> list[str]:
    """A line for each number of rounds; figures of the first run that was measured there."""
    spent = _spent(fleet)
    lines = []
    for wanted in ROUNDS:
        number, row = next(((at, row) for row in rows if (at := _nearest(row, wanted))), (wanted, None))
        hours, device_hours = spent[number - 1]
        cells = [f"{number:,}", *_gains(row, number), *_bytes(row), _hours(hours), _hours(device_hours)]
        lines.append(f"|{'|'.join(cells)}|\n")
    return lines


def _hours(hours: float) -> str:
    return f"{hours:.1f}" if hours < 10 else f"{hours:,.0f}"


def _nearest(row: ResultRow, wanted: int) -> int:
    """The measured round nearest to a number of rounds; 0 if none is near."""
    near = [point.round for point in row.curve if wanted / NEAR <= point.round <= wanted * NEAR]
    return min(near, key=lambda number: abs(np.log(number / wanted)), default=0)


def _gains(row: ResultRow | None, number: int) -> list[str]:
    """Points of top-1 gained, and points of keystrokes saved more; empty where nobody measured."""
    if row is None:
        return ["", ""]
    reached = {point.round: point.top1 for point in row.curve}
    keystrokes = ""
    if row.outcome is not None and row.outcome.own_keystrokes_saved:
        gains = [
            own[max(version for version in announced if version < number or not version)].mean - own[0].mean
            for announced, own in zip(row.outcome.announced_versions, row.outcome.own_keystrokes_saved, strict=True)
        ]
        keystrokes = f"{np.mean(gains):+.2f}"
    return [f"{100 * (reached[number] - reached[0]):+.1f}", keystrokes]


def _bytes(row: ResultRow | None) -> list[str]:
    if row is None or row.outcome is None:
        return ["", ""]
    return [f"{row.outcome.report_bytes_median:,}", f"{row.outcome.bytes_down_median:,}"]


def _spent(fleet: FleetSize) -> list[tuple[float, float]]:
    """Hours from the start and hours of devices' work, after each round."""
    time = read_experiment(ROOT / "experiments" / "buffered.toml").time
    people, goal = PEOPLE[fleet], int(SETTINGS[fleet]["task.goal"])
    seconds = seconds_of_work(time, people, seed=1)
    selected = min(people, round(goal * TaskSettings().over_selection))

    def planned(number: int) -> PlannedVersion:
        cohort = seeded(1, "cohort", number).choice(people, selected, replace=False).tolist()
        return first_to_report(cohort, seconds, goal, number, time.selection_s)

    rounds = [planned(number) for number in range(1, max(ROUNDS) + 1)]
    hours = accumulate(each.hours for each in rounds)
    return list(zip(hours, accumulate(each.device_seconds / 3600 for each in rounds), strict=True))
