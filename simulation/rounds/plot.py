"""Plots rounds over time: their duration, dropouts, free phones, and the coordinator's messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nightjar.coordinator.rounds.round import Phase, Round
from nightjar.simulation.rounds.faults import SimulatedFault
from nightjar.simulation.rounds.result import seats
from nightjar.simulation.rounds.world import SAMPLE_EVERY_S, SimulationResult
from nightjar.wire.errors import ConfigError

INK, COMMITTED, ABANDONED, FREE, TROUBLE = "#333333", "#2a6f97", "#c1440e", "#7a9e7e", "#e0a030"
STEPS_H = (1 / 6, 0.5, 1.0, 2.0, 3.0, 6.0, 12.0, 24.0, 48.0, 168.0)
"""Tick distances of the time axis; the first that gives fewer than ``MOST_TICKS`` ticks is used."""
MOST_TICKS = 13
SMOOTHED = 15
"""Window of the running median, rounds."""
DOWN = {
    SimulatedFault.COORDINATOR_RESTART,
    SimulatedFault.COORDINATOR_DISK_FULL,
    SimulatedFault.BROKER_RESTART,
    SimulatedFault.BROKER_AMNESIA,
}
"""Faults after which devices reconnect or messages are sent again."""


def draw(outcome: SimulationResult, path: Path) -> None:
    """Draw the plot into a PNG file.

    Raises:
        ConfigError: the file cannot be written.
    """
    figure = Figure(figsize=(10, 8), layout="constrained")  # not pyplot, which has global state
    axes: list[Axes] = list(figure.subplots(4, 1, sharex=True))
    _draw_durations(axes[0], outcome)
    _draw_dropouts(axes[1], outcome)
    _draw_free(axes[2], outcome)
    _draw_messages(axes[3], outcome)
    for each in axes:
        each.set_ylim(bottom=0)
        each.spines[["top", "right", "left"]].set_visible(False)
        each.grid(axis="y", color="#e5e5e5")
        each.set_axisbelow(True)
        each.tick_params(length=0, pad=6, colors=INK)
    _mark_time(axes[-1], outcome.virtual_s / 3600)
    figure.suptitle(_title(outcome), x=0.01, ha="left", fontsize=13, color=INK)
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        msg = f"--plot: cannot write {path}: {error}"
        raise ConfigError(msg) from error


def _title(outcome: SimulationResult) -> str:
    settings, rounds = outcome.settings, outcome.observer.rounds
    committed = sum(state.phase is Phase.COMMITTED for state in rounds)
    faults = ", ".join(sorted(map(str, settings.faults))) or "no faults"
    if len(settings.faults) > 3:
        faults = f"{len(settings.faults)} kinds of faults"
    lives = "generated availability" if settings.availability is None else "recorded availability"
    ended = f"{committed:,} of {len(rounds):,} rounds committed"
    return f"{settings.devices:,} phones, {lives}, {faults}, seed {settings.seed}: {ended}"


def _head(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=10, color=INK)


def _draw_durations(axes: Axes, outcome: SimulationResult) -> None:
    _head(axes, "Minutes from the beginning of a round to its end")
    for phase, color, mark in ((Phase.COMMITTED, COMMITTED, "o"), (Phase.ABANDONED, ABANDONED, "X")):
        these = [state for state in outcome.observer.rounds if state.phase is phase]
        if not these:
            continue
        minutes = [outcome.observer.seconds(state.number) / 60 for state in these]
        axes.plot(_hours(these, outcome), minutes, mark, color=color, ms=4, alpha=0.5, label=phase.value, clip_on=False)
        if phase is Phase.COMMITTED:
            _draw_median(axes, _hours(these, outcome), minutes)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=3, frameon=False, fontsize=9)


def _draw_dropouts(axes: Axes, outcome: SimulationResult) -> None:
    _head(axes, "Share of the selected phones that dropped out, %")
    begun = [state for state in outcome.observer.rounds if state.seats]
    shares = [100 * dropped / selected for selected, dropped in (seats([state]) for state in begun)]
    hours = _hours(begun, outcome)
    axes.plot(hours, shares, "o", color=COMMITTED, ms=4, alpha=0.5, clip_on=False)
    _draw_median(axes, hours, shares)


def _draw_free(axes: Axes, outcome: SimulationResult) -> None:
    _head(axes, "Phones that are idle, charging and on Wi-Fi")
    hours = [sample.now_s / 3600 for sample in outcome.samples]
    axes.fill_between(hours, [sample.free for sample in outcome.samples], color=FREE, alpha=0.6, lw=0)


def _draw_messages(axes: Axes, outcome: SimulationResult) -> None:
    _head(axes, "Messages to and from the coordinator per second, mean of each minute")
    hours = [sample.now_s / 3600 for sample in outcome.samples]
    axes.plot(hours, [sample.messages / SAMPLE_EVERY_S for sample in outcome.samples], color=INK, lw=0.8)
    down = [now_s / 3600 for now_s, fault in outcome.troubles if fault in DOWN]
    if down:
        label = "coordinator or broker restarted, or its disk was full"
        axes.plot(down, np.zeros(len(down)), "^", color=TROUBLE, ms=6, label=label, clip_on=False, zorder=3)
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), frameon=False, fontsize=9)


def _draw_median(axes: Axes, hours: Sequence[float], values: Sequence[float]) -> None:
    """Draw a running median if there are enough values."""
    if len(values) < 2 * SMOOTHED:
        return
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(values), SMOOTHED)
    middle = SMOOTHED // 2
    label = f"median of {SMOOTHED} rounds"
    axes.plot(hours[middle : middle + len(windows)], np.median(windows, axis=1), color=INK, lw=1.5, label=label)


def _mark_time(axes: Axes, end_h: float) -> None:
    """Set ticks at round times of day; the simulation begins at midnight."""
    step_h = next((step for step in STEPS_H if end_h / step < MOST_TICKS), STEPS_H[-1])
    ticks = np.arange(0.0, end_h + step_h / 2, step_h)
    axes.set_xticks(ticks, [_time_of_day(hour) for hour in ticks.tolist()])
    axes.set_xlim(0, end_h)


def _time_of_day(hour: float) -> str:
    day, hour = divmod(hour, 24.0)
    clock = f"{int(hour):02d}:{round(hour * 60) % 60:02d}"
    return clock if hour else f"{clock}\nday {int(day) + 1}"


def _hours(rounds: Sequence[Round], outcome: SimulationResult) -> list[float]:
    return [outcome.observer.ended_s[state.number] / 3600 for state in rounds]
