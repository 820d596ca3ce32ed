"""``python -m nightjar.simulation rounds``: the options and the output.

Standard output has only the result; progress and violations go to standard error.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from nightjar.coordinator.tasks.settings import Mode, Privacy
from nightjar.simulation.progress import progress, say
from nightjar.simulation.rounds.faults import PLACES, dangers
from nightjar.simulation.rounds.hunt import complaints, hunt
from nightjar.simulation.rounds.result import bag_of, result_of, table_of
from nightjar.simulation.rounds.world import CODECS, OTHER_TASKS, Settings, simulate
from nightjar.wire.errors import ConfigError

WRONG = 1
"""Exit status of a simulation that found a defect."""
INTERRUPTED = 130
"""Exit status after ctrl-C."""


@click.command()
@click.option("--devices", default=1000, show_default=True, type=click.IntRange(2, 1_000_000), help="Phones.")
@click.option("--rounds", default=50, show_default=True, type=click.IntRange(1, 100_000), help="Rounds to simulate.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 2**31), help="Root seed.")
@click.option(
    "--faults",
    default="none",
    show_default=True,
    help=f"none, all, or some of {', '.join(PLACES)}; optionally limited to a state or phase: power-cut:training.",
)
@click.option("--severity", default=1.0, show_default=True, type=click.FloatRange(0, 1000), help="Factor of all rates.")
@click.option(
    "--availability",
    default=None,
    type=click.Path(path_type=Path),
    help="CSV file of recorded windows; default: generated windows.",
)
@click.option("--codec", default=CODECS[0], show_default=True, type=click.Choice(CODECS), help="Codec of the reports.")
@click.option("--steering/--no-steering", default=True, show_default=True, help="Pace steering, or a fixed minute.")
@click.option(
    "--tasks",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1 + len(OTHER_TASKS)),
    help="Concurrent tasks on the same phones: the second is open to all, the next two are variants that divide them.",
)
@click.option(
    "--privacy",
    default=Privacy.NONE.value,
    show_default=True,
    type=click.Choice([each.value for each in Privacy]),
    help="With secure-sum and secure-dp the coordinator learns only sums.",
)
@click.option(
    "--mode",
    default=Mode.SYNCHRONOUS.value,
    show_default=True,
    type=click.Choice([each.value for each in Mode]),
    help="Buffered rounds do not wait for their phones.",
)
@click.option(
    "--concurrency",
    default=None,
    type=click.IntRange(1, 1_000_000),
    help="Phones at work at a time with --mode buffered; default: as many as a synchronous round selects.",
)
@click.option(
    "--canaries",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 1, max_open=True),
    help="Share of the phones that try each version first; a third of the versions are bad.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@click.option(
    "--hunt", "seeds", default=0, type=click.IntRange(0, 1_000_000), help="Search for defects with this many seeds."
)
@click.option("--plot", default=None, type=click.Path(path_type=Path), help="PNG file for a plot of the rounds.")
def rounds(
    *,
    devices: int,
    rounds: int,
    seed: int,
    faults: str,
    severity: float,
    availability: Path | None,
    codec: str,
    steering: bool,
    tasks: int,
    privacy: str,
    mode: str,
    concurrency: int | None,
    canaries: float,
    as_json: bool,
    seeds: int,
    plot: Path | None,
) -> None:
    """Simulate rounds of a fleet under a virtual clock, with the real coordinator and agents and seeded faults."""
    if plot is not None:
        _expect_writable(plot, seeds)
    if Mode(mode) is Mode.BUFFERED and Privacy(privacy) is not Privacy.NONE:
        msg = "--mode buffered is for --privacy none: with privacy the phones of a round start together"
        raise ConfigError(msg)
    if Mode(mode) is Mode.SYNCHRONOUS and concurrency is not None:
        msg = "--concurrency is for --mode buffered: a synchronous round selects its cohort"
        raise ConfigError(msg)
    if canaries and Privacy(privacy) is not Privacy.NONE:
        msg = "--canaries is for --privacy none: a trial reads the report of each phone"
        raise ConfigError(msg)
    settings = Settings(
        devices,
        rounds,
        seed,
        dangers(faults),
        severity,
        availability,
        codec,
        steering,
        tasks,
        Privacy(privacy),
        Mode(mode),
        concurrency,
        canaries,
    )
    console = Console(stderr=True)
    try:
        if seeds:
            say(console, f"{devices} phones, {rounds} rounds, seeds {seed} to {seed + seeds - 1}")
            wrong = _hunt(settings, seeds, console, as_json=as_json)
        else:
            say(console, f"{devices} phones, {rounds} rounds, seed {seed}")
            wrong = _simulate(settings, plot, console, as_json=as_json)
    except KeyboardInterrupt:
        say(console, "interrupted: no result")
        raise click.exceptions.Exit(INTERRUPTED) from None
    for complaint in wrong:
        say(console, f"wrong: {complaint}")
    if wrong:
        raise click.exceptions.Exit(WRONG)


def _simulate(settings: Settings, plot: Path | None, console: Console, *, as_json: bool) -> list[str]:
    outcome = simulate(settings, partial(progress, console, what="rounds"))
    result = result_of(outcome)
    if plot is not None:
        from nightjar.simulation.rounds.plot import draw  # imports matplotlib, which takes a second

        draw(outcome, plot)
    _print(result, as_json=as_json)
    return complaints(outcome)


def _hunt(settings: Settings, seeds: int, console: Console, *, as_json: bool) -> list[str]:
    bag = hunt(settings, progress(console, range(settings.seed, settings.seed + seeds), "seeds"))
    _print(bag_of(bag, seeds), as_json=as_json)
    return [f"seed {seed}: {complaint}" for seed, found in bag.wrong.items() for complaint in found]


def _print(result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(result))
    else:
        Console().print(table_of(result))


def _expect_writable(plot: Path, seeds: int) -> None:
    """Check the plot's path before the simulation, which may take minutes.

    Raises:
        ConfigError: the folder does not exist, the name does not end in .png, or ``--hunt`` was given.
    """
    if seeds:
        msg = "--plot shows one simulation, and --hunt runs many: give only one of them"
        raise ConfigError(msg)
    if plot.suffix.lower() != ".png" or not plot.parent.is_dir():
        msg = f"--plot: expected a file name ending in .png in an existing folder, got: {plot}"
        raise ConfigError(msg)
