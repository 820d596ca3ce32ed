"""``python -m simulation rounds``: the options, and what is printed.

The result alone goes to standard output; how far it is, and what went wrong, to standard error.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from simulation.progress import progress, say
from simulation.rounds.faults import PLACES, dangers
from simulation.rounds.hunt import complaints, hunt
from simulation.rounds.result import bag_of, result_of, table_of
from simulation.rounds.world import CODECS, OTHER_TASKS, Settings, simulate
from wire.errors import ConfigError

WRONG = 1
"""Exit status of a simulation that found a defect."""
INTERRUPTED = 130
"""Exit status of a program that ctrl-C ended."""


@click.command()
@click.option("--devices", default=1000, show_default=True, type=click.IntRange(2, 1_000_000), help="Phones.")
@click.option("--rounds", default=50, show_default=True, type=click.IntRange(1, 100_000), help="Rounds to the end of.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 2**31), help="Root of all randomness.")
@click.option(
    "--faults",
    default="none",
    show_default=True,
    help=f"none, all, or some of {', '.join(PLACES)}; some also in one place only: power-cut:training.",
)
@click.option("--severity", default=1.0, show_default=True, type=click.FloatRange(0, 1000), help="Times every rate.")
@click.option(
    "--availability",
    default=None,
    type=click.Path(path_type=Path),
    help="CSV of real windows; without it a generated day.",
)
@click.option("--codec", default=CODECS[0], show_default=True, type=click.Choice(CODECS), help="How reports are coded.")
@click.option("--steering/--no-steering", default=True, show_default=True, help="Pace steering; else a fixed minute.")
@click.option(
    "--tasks",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1 + len(OTHER_TASKS)),
    help="At once on the same phones: a second that is open to all, then two variants that divide them.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.option(
    "--hunt", "seeds", default=0, type=click.IntRange(0, 1_000_000), help="Only look for defects, with so many seeds."
)
@click.option("--plot", default=None, type=click.Path(path_type=Path), help="PNG file for a picture of the rounds.")
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
    as_json: bool,
    seeds: int,
    plot: Path | None,
) -> None:
    """Run rounds of a whole fleet under a virtual clock, with real cores and drivers and seeded faults."""
    if plot is not None:
        _expect_writable(plot, seeds)
    settings = Settings(devices, rounds, seed, dangers(faults), severity, availability, codec, steering, tasks)
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
        from simulation.rounds.plot import draw  # it takes a second, and only a plot needs it

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
    """Said before the simulation and not after it, which may take minutes.

    Raises:
        ConfigError: the folder does not exist, the ending is not that of a PNG file, or there is no one simulation.
    """
    if seeds:
        msg = "--plot shows one simulation, and --hunt runs many: leave one of them out"
        raise ConfigError(msg)
    if plot.suffix.lower() != ".png" or not plot.parent.is_dir():
        msg = f"--plot: expected a file name that ends in .png in a folder that exists, got: {plot}"
        raise ConfigError(msg)
