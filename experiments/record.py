"""Keeps results in experiments/results.json, from which docs/experiments.md is made.

Its command records a run of the laboratory:

``python -m nightjar.experiments.record NAME build/chat --command "python -m nightjar.simulation learn ..." --commit
1a2b3c4``
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import click
import msgspec

from nightjar.experiments.frame import ResultRow
from nightjar.host.files import replace_file
from nightjar.simulation.demo.replay import RESULTS, Reached
from nightjar.simulation.laboratory.checkpoint import CURVE, Point
from nightjar.simulation.laboratory.outcome import Outcome
from nightjar.wire.errors import ConfigError

CHAT = "Chat, "
"""The names of the laboratory's rows begin with it; below a heading or in a drawing it says nothing."""


def results() -> list[ResultRow]:
    """The recorded results: the laboratory's, then each page's, in the order of their names."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=list[ResultRow]) if RESULTS.exists() else []


def keep(rows: Sequence[ResultRow]) -> None:
    """Record rows; those of the same name are replaced, but a long form's not by a short one's.

    Raises:
        ConfigError: another page has a row of that name.
    """
    old = {each.name: each for each in results()}
    for each in rows:
        if each.name in old and old[each.name].page != each.page:
            msg = f"expected a name that no other page has, got {each.name!r} of {old[each.name].page}; rename the row"
            raise ConfigError(msg)
    long = {each.name for each in old.values() if each.form == "long"}
    new = {each.name: each for each in rows if each.form == "long" or each.name not in long}
    kept = [each for each in old.values() if each.name not in new]
    ordered = sorted([*kept, *new.values()], key=lambda each: (each.page, each.name))
    replace_file(RESULTS, b"[\n" + b",\n".join(map(msgspec.json.encode, ordered)) + b"\n]\n")


@click.command()
@click.argument("name")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--command", required=True, help="The command that reproduces it.")
@click.option("--printed", type=click.FloatRange(0, 1), help="Accuracy that a source document gives.")
@click.option("--commit", required=True, help="The commit whose code ran.")
def main(name: str, folder: Path, command: str, printed: float | None, commit: str) -> None:
    """Record the outcome of a run in FOLDER under a NAME; a result of that name is replaced."""
    try:
        outcomes = msgspec.json.decode((folder / "outcome.json").read_bytes(), type=list[Outcome])
    except (OSError, msgspec.DecodeError) as error:
        msg = f"{folder} has no outcome of the laboratory: {error}"
        raise ConfigError(msg) from error
    if len(outcomes) != 1:
        msg = f"{folder} has {len(outcomes)} outcomes; expected that of one experiment, not of a sweep"
        raise ConfigError(msg)
    (outcome,) = outcomes
    pooled = outcome.central_top1
    new = ResultRow(
        name=name,
        command=command,
        printed=printed,
        measured=outcome.top1,
        pooled=pooled,
        delta_accuracy=None if pooled is None else abs(outcome.top1 - pooled),
        seeds=outcome.seeds,
        commit=commit,
        measure="top-1 recall",
        outcome=outcome,
        curve=_curve([folder / f"seed-{seed}" / CURVE for seed in outcome.seeds]),
    )
    keep([new])


def _curve(files: Sequence[Path]) -> list[Reached]:
    """The mean of the curves of a run's seeds."""
    try:
        curves = [msgspec.json.Decoder(Point).decode_lines(file.read_bytes()) for file in files]
    except (OSError, msgspec.DecodeError) as error:
        msg = f"the run has no curve: {error}"
        raise ConfigError(msg) from error
    return [
        Reached(points[0].round, fmean(each.top1 for each in points), fmean(each.top3 for each in points))
        for points in zip(*curves, strict=True)
    ]


if __name__ == "__main__":
    main()
