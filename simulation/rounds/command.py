"""``python -m simulation rounds``: the options, and what is printed.

The result alone goes to standard output; how far it is, and what went wrong, to standard error.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import msgspec
from rich.console import Console

from simulation.progress import progress, say
from simulation.rounds.faults import PLACES, dangers
from simulation.rounds.result import result_of, table_of
from simulation.rounds.world import CODECS, Settings, simulate
from wire.errors import ConfigError, UnavailableError

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
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
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
    as_json: bool,
    plot: Path | None,
) -> None:
    """Run rounds of a whole fleet under a virtual clock, with real cores and drivers and seeded faults."""
    if plot is not None:
        _expect_writable(plot)
    settings = Settings(devices, rounds, seed, dangers(faults), severity, availability, codec, steering)
    console = Console(stderr=True)
    try:
        say(console, f"{devices} phones, {rounds} rounds, seed {seed}")
        outcome = simulate(settings, partial(progress, console, what="rounds"))
    except KeyboardInterrupt:
        say(console, "interrupted: no result")
        raise click.exceptions.Exit(INTERRUPTED) from None
    result = result_of(outcome)
    if plot is not None:
        from simulation.rounds.plot import draw  # it takes a second, and only a plot needs it

        draw(outcome, plot)
    if as_json:
        click.echo(msgspec.json.encode(result))
    else:
        Console().print(table_of(result))
    for event, line in outcome.errors.unexpected.items():
        say(console, f"logged {outcome.errors.counts[event]} times, and no fault explains it: {line}")
    ended = result["rounds_committed"] + result["rounds_abandoned"]
    if ended < rounds:
        msg = f"only {ended} of {rounds} rounds ended within {result['virtual_hours']} virtual hours"
        raise UnavailableError(msg)


def _expect_writable(plot: Path) -> None:
    """Said before the simulation and not after it, which may take minutes.

    Raises:
        ConfigError: the folder does not exist, or the ending is not that of a PNG file.
    """
    if plot.suffix.lower() != ".png" or not plot.parent.is_dir():
        msg = f"--plot: expected a file name that ends in .png in a folder that exists, got: {plot}"
        raise ConfigError(msg)
