"""``python -m nightjar.experiments.silos.record FOLDER``: records the runs of ``--folder FOLDER``.

A row for each model and split; measured is the federated accuracy on the test images.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

import click
import msgspec

from nightjar.experiments.frame import Form, ResultRow
from nightjar.experiments.record import keep
from nightjar.experiments.silos.command import OUTCOME
from nightjar.experiments.silos.study import StudyRun
from nightjar.wire.errors import ConfigError

PAGE = "silos"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--command", required=True, help="The command that reproduces it.")
@click.option("--commit", required=True, help="The commit whose code ran.")
def main(folder: Path, command: str, commit: str) -> None:
    """Record the runs that ended in FOLDER; rows of the same model and split are replaced."""
    try:
        runs = [msgspec.json.decode(path.read_bytes(), type=StudyRun) for path in sorted(folder.glob(f"*/{OUTCOME}"))]
    except (OSError, msgspec.DecodeError) as error:
        msg = f"{folder} has a run that cannot be read: {error}"
        raise ConfigError(msg) from error
    if not runs:
        msg = f"{folder} has no run that ended: expected the --folder of python -m nightjar.experiments.silos"
        raise ConfigError(msg)
    kinds = dict.fromkeys((run.model, run.split) for run in runs)
    keep([_row([run for run in runs if (run.model, run.split) == kind], command, commit) for kind in kinds])


def _row(runs: Sequence[StudyRun], command: str, commit: str) -> ResultRow:
    federated, pooled = [run.federated for run in runs], fmean(run.pooled for run in runs)
    return ResultRow(
        name=f"two silos, {runs[0].model}, {runs[0].split}",
        command=command,
        measured=fmean(federated),
        spread=stdev(federated) if len(runs) > 1 else None,
        pooled=pooled,
        delta_accuracy=abs(fmean(federated) - pooled),
        seeds=[run.seed for run in runs],
        commit=commit,
        page=PAGE,
        form=Form.LONG.value,
        figures={
            "silo A alone": fmean(run.alone[0] for run in runs),
            "silo B alone": fmean(run.alone[1] for run in runs),
            "rounds": fmean(run.rounds for run in runs),
            "MB up": fmean(run.bytes_up for run in runs) / 1e6,
            "MB down": fmean(run.bytes_down for run in runs) / 1e6,
        },
    )


if __name__ == "__main__":
    main()
