"""``python -m nightjar.simulation year``: the options and the output.

Standard output has only the result; progress, and what was not as it should be, go to standard error.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import msgspec
from rich.console import Console

from nightjar.host.files import replace_file
from nightjar.simulation.progress import progress, say
from nightjar.simulation.rounds.result import table_of
from nightjar.simulation.year.outcome import DEVICES, YearOutcome, YearSettings
from nightjar.simulation.year.result import remarks, year_result
from nightjar.simulation.year.world import run_year

WRONG, INTERRUPTED = 1, 130
"""Exit status if a bar about devices or reports was missed; and after ctrl-C."""


@click.command()
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 2**31), help="Root seed.")
@click.option("--model", default="tiny", show_default=True, type=click.Choice(["tiny", "gboard"]), help="Whose size.")
@click.option("--days", default=365, show_default=True, type=click.IntRange(2, 3650), help="Days to simulate.")
@click.option("--devices", default=DEVICES, show_default=True, type=click.IntRange(50, 100_000), help="Devices.")
@click.option(
    "--folder",
    default=None,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Where to make the temporary folder; default: in memory.",
)
@click.option(
    "--former",
    default=None,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Tree of an earlier commit (scripts/former_version.sh), whose agent every second device has.",
)
@click.option(
    "--rules",
    default=None,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Prometheus' rules (deploy/prometheus/alerts.yml) to evaluate with promtool; takes longer.",
)
@click.option(
    "--so-far",
    default=None,
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the result so far, which is written again after each day.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def year(
    *,
    seed: int,
    model: str,
    days: int,
    devices: int,
    folder: Path | None,
    former: Path | None,
    rules: Path | None,
    so_far: Path | None,
    as_json: bool,
) -> None:
    """Simulate a year of a fleet, with the real database, files, certificates and device stores."""
    console = Console(stderr=True)
    settings = YearSettings(seed, model, days, devices, former, rules)
    say(console, f"{devices} devices, {days} days, {model}, seed {seed}")
    try:
        outcome = run_year(settings, partial(progress, console, what="days"), folder, partial(_write, so_far))
    except KeyboardInterrupt:
        say(console, "interrupted: no result")
        raise click.exceptions.Exit(INTERRUPTED) from None
    result = year_result(outcome)
    if as_json:
        click.echo(msgspec.json.encode(result))
    else:
        Console().print(table_of(result, "Year"))
    for line in remarks(outcome):
        say(console, line)
    if any(result[bar] for bar in ("visits_needed", "reports_lost", "reports_counted_twice", "faults_without_alert")):
        raise click.exceptions.Exit(WRONG)


def _write(path: Path | None, outcome: YearOutcome) -> None:
    """Write the result so far, and what was not as it should be."""
    if path is not None:
        replace_file(path, msgspec.json.encode({**year_result(outcome), "remarks": remarks(outcome)}))
