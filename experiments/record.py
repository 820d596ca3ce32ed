"""Records the outcome of a run of the laboratory in experiments/results.json, from which docs/experiments.md is made.

``python -m experiments.record NAME build/chat --command "python -m simulation learn ..." --commit 1a2b3c4``
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import click
import msgspec

from host.files import replace_file
from simulation.demo.replay import RESULTS, Reached
from simulation.laboratory.command import Outcome
from simulation.laboratory.training import CURVE, Point
from wire.errors import ConfigError


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A result; accuracy is top-1 recall, 0 to 1.

    Attributes:
        name: what was run.
        command: reproduces it.
        printed: accuracy that a source document gives; None if none does.
        measured: accuracy of federated training, mean over the seeds.
        pooled: accuracy of the same model trained in one place; None if it was not.
        delta_accuracy: measured minus pooled.
        seeds: seeds of the runs.
        commit: commit of the code.
        outcome: all figures of the laboratory.
        curve: recall by rounds; none of results that were recorded before it was kept.
    """

    name: str
    command: str
    printed: float | None
    measured: float
    pooled: float | None
    delta_accuracy: float | None
    seeds: list[int]
    commit: str
    outcome: Outcome
    curve: list[Reached] = []


def results() -> list[Recorded]:
    """The recorded results, in the order of their names."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=list[Recorded]) if RESULTS.exists() else []


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
    new = Recorded(
        name=name,
        command=command,
        printed=printed,
        measured=outcome.top1,
        pooled=pooled,
        delta_accuracy=None if pooled is None else outcome.top1 - pooled,
        seeds=outcome.seeds,
        commit=commit,
        outcome=outcome,
        curve=_curve([folder / f"seed-{seed}" / CURVE for seed in outcome.seeds]),
    )
    kept = sorted([*(each for each in results() if each.name != name), new], key=lambda each: each.name)
    replace_file(RESULTS, msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")


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
