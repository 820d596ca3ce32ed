"""Rounds over time as a picture: how long each took, who dropped out, who was free, and what the coordinator heard."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coordinator.core.round import Phase, Round
from simulation.rounds.result import seats, seconds
from simulation.rounds.world import SAMPLE_EVERY_S, Outcome
from wire.errors import ConfigError

COMMITTED, ABANDONED, QUIET = "#2a6f97", "#c1440e", "#8a8a8a"


def draw(outcome: Outcome, path: Path) -> None:
    """Write the picture.

    Raises:
        ConfigError: the file cannot be written, or its ending is of no picture.
    """
    figure = Figure(figsize=(10, 8), layout="constrained")  # not pyplot: no window, no global state
    axes: list[Axes] = list(figure.subplots(4, 1, sharex=True))
    first_s = min((state.opened_at_s for state in outcome.observer.rounds), default=0.0)
    _draw_durations(axes[0], outcome.observer.rounds, first_s)
    _draw_dropouts(axes[1], outcome.observer.rounds, first_s)
    hours = [sample.now_s / 3600 for sample in outcome.samples]
    axes[2].plot(hours, [sample.free for sample in outcome.samples], color=QUIET)
    axes[2].set_ylabel("phones free")
    axes[2].set_ylim(bottom=0)
    axes[3].plot(hours, [sample.messages / SAMPLE_EVERY_S for sample in outcome.samples], color=QUIET)
    axes[3].set_ylabel("messages per s")
    axes[3].set_xlabel("virtual hours")
    axes[3].set_ylim(bottom=0)
    settings = outcome.settings
    faults = ", ".join(sorted(map(str, settings.faults))) or "no faults"
    if len(settings.faults) > 4:
        faults = f"{len(settings.faults)} kinds of faults"
    figure.suptitle(f"{settings.devices} phones, {len(outcome.observer.rounds)} rounds, {faults}, seed {settings.seed}")
    try:
        figure.savefig(path, dpi=110)
    except (OSError, ValueError) as error:
        msg = f"--plot: cannot write {path}: {error}"
        raise ConfigError(msg) from error


def _draw_durations(axes: Axes, rounds: list[Round], first_s: float) -> None:
    for phase, color in ((Phase.COMMITTED, COMMITTED), (Phase.ABANDONED, ABANDONED)):
        these = [state for state in rounds if state.phase is phase]
        axes.vlines(_hours(these, first_s), 0, [seconds(state) for state in these], color=color, alpha=0.4)
        label = f"{phase.value} ({len(these)})"
        axes.plot(_hours(these, first_s), [seconds(state) for state in these], "o", color=color, ms=4, label=label)
    axes.set_ylabel("seconds per round")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right")


def _draw_dropouts(axes: Axes, rounds: list[Round], first_s: float) -> None:
    begun = [state for state in rounds if state.seats]
    shares = [100 * dropped / selected for selected, dropped in (seats([state]) for state in begun)]
    axes.plot(_hours(begun, first_s), shares, "o", color=COMMITTED, ms=4)
    axes.set_ylabel("dropped out, %")
    axes.set_ylim(bottom=0)


def _hours(rounds: list[Round], first_s: float) -> list[float]:
    return [(state.opened_at_s - first_s) / 3600 for state in rounds]
