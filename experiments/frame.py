"""What every page of experiments is: a function from a request to rows, and the command around it.

A page is a module with ``run(request) -> rows`` and ``main = page_command(run)``; :mod:`nightjar.experiments.__main__`
lists the pages and runs all. A page writes only below the request's folder.
"""

from __future__ import annotations

import enum
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TypeVar

import click
import msgspec

from nightjar.simulation.demo.replay import Reached
from nightjar.simulation.laboratory.outcome import Outcome
from nightjar.wire.errors import ConfigError

Value = TypeVar("Value")
Curve = Sequence[tuple[float, float]]


class Form(enum.Enum):
    """How much of a page runs."""

    SMOKE = "smoke"
    """Seconds, on generated data: shows that the command works."""
    SHORT = "short"
    """A minute or two: shows the effect."""
    LONG = "long"
    """The document's setting."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a page is asked for.

    Attributes:
        form: how much to run.
        out: folder for files of the page's own; exists.
        data: folder with data sets, as :mod:`nightjar.experiments.data_sets` says; None for none.
        only: part of the names of the rows that are wanted; pages of one row need not look.
        done: names of rows that need not be made again; pages of few rows need not look.
        jax: train with JAX, on a GPU if there is one; pages without such networks refuse it.
    """

    form: Form
    out: Path
    data: Path | None = None
    only: str = ""
    done: frozenset[str] = frozenset()
    jax: bool = False

    def pick(self, smoke: Value, short: Value, long: Value) -> Value:
        """The value for this form."""
        match self.form:
            case Form.SMOKE:
                return smoke
            case Form.SHORT:
                return short
            case Form.LONG:
                return long


class ResultRow(msgspec.Struct, frozen=True, kw_only=True):
    """A result: of a page, or of the laboratory.

    Attributes:
        name: what was run; no two recorded rows have the same.
        command: reproduces it.
        printed: figure that a source document gives; None if none does.
        measured: the same figure here, mean over the seeds.
        bound: the run was stopped before the figure was known, which is larger than measured.
        spread: standard deviation of the seeds; None of one.
        pooled: the figure of the same model trained in one place; None if it was not.
        delta_accuracy: |measured - pooled|.
        seeds: seeds of the runs.
        commit: commit of the code; empty until recorded.
        page: the page that made it; empty for the laboratory.
        form: form of the page that ran.
        measure: what the figures are.
        figures: other figures by name.
        curves: line -> its points (x, y).
        axes: what x and y of the curves are.
        note: where the outcome differs from the document and why, or that a method did not win.
        outcome: all figures of the laboratory.
        curve: recall by rounds of the laboratory; none of results that were recorded before it was kept.
    """

    name: str
    command: str
    printed: float | None = None
    measured: float
    bound: bool = False
    spread: float | None = None
    pooled: float | None = None
    delta_accuracy: float | None = None
    seeds: list[int]
    commit: str = ""
    page: str = ""
    form: str = ""
    measure: str = "accuracy"
    figures: dict[str, float] = {}
    curves: dict[str, list[tuple[float, float]]] = {}
    axes: tuple[str, str] = ("round", "accuracy")
    note: str = ""
    outcome: Outcome | None = None
    curve: list[Reached] = []


def row(
    request: Request,
    name: str,
    measured: Sequence[float],
    *,
    seeds: Sequence[int],
    printed: float | None = None,
    pooled: float | None = None,
    bound: bool = False,
    alone: bool = False,
    measure: str = "accuracy",
    figures: Mapping[str, float] | None = None,
    curves: Mapping[str, Curve] | None = None,
    axes: tuple[str, str] = ("round", "accuracy"),
    note: str = "",
) -> ResultRow:
    """A row of a page; the command around the page adds what all its rows share.

    Args:
        request: what the page was asked for.
        name: what was run.
        measured: one figure a seed.
        seeds: the seeds.
        printed: the source document's figure.
        pooled: the figure of the same model trained in one place.
        bound: the run was stopped before the figure was known, which is larger.
        alone: ``--only`` runs it without the page's other rows.
        measure: what the figures are: accuracy, rounds, bytes.
        figures: other figures by name.
        curves: line -> its points.
        axes: what x and y of the curves are.
        note: a sentence beside the figures.
    """
    mean, spread, delta = _compared(measured, pooled)
    return ResultRow(
        name=name,
        command=f" --only '{name}'" if alone else "",
        printed=printed,
        measured=mean,
        bound=bound,
        spread=spread,
        pooled=pooled,
        delta_accuracy=delta,
        seeds=list(seeds),
        form=request.form.value,
        measure=measure,
        figures=dict(figures or {}),
        curves={line: [(_drawn(x), _drawn(y)) for x, y in points] for line, points in (curves or {}).items()},
        axes=axes,
        note=note,
    )


def averaged(of_seeds: Iterable[Sequence[ResultRow]]) -> list[ResultRow]:
    """Rows that were made with one seed after the other, as one row each: means, with the seeds' spread.

    Args:
        of_seeds: for each seed the same rows, with the same figures and points of curves.
    """
    return [_mean_of(rows) for rows in zip(*of_seeds, strict=True)]


def _mean_of(rows: Sequence[ResultRow]) -> ResultRow:
    first = rows[0]
    pooled = None if first.pooled is None else fmean(each.pooled or 0.0 for each in rows)
    mean, spread, delta = _compared([each.measured for each in rows], pooled)
    return msgspec.structs.replace(
        first,
        measured=mean,
        spread=spread,
        pooled=pooled,
        delta_accuracy=delta,
        seeds=[seed for each in rows for seed in each.seeds],
        figures={name: fmean(each.figures[name] for each in rows) for name in first.figures},
        curves={line: _mean_curve([each.curves[line] for each in rows]) for line in first.curves},
    )


def _mean_curve(curves: Sequence[Curve]) -> list[tuple[float, float]]:
    return [(points[0][0], _drawn(fmean(y for _, y in points))) for points in zip(*curves, strict=True)]


def _compared(measured: Sequence[float], pooled: float | None) -> tuple[float, float | None, float | None]:
    """Mean and spread of the seeds, and how far the mean is from the pooled figure."""
    mean = fmean(measured)
    return mean, stdev(measured) if len(measured) > 1 else None, None if pooled is None else abs(mean - pooled)


def _drawn(value: float) -> float:
    """Six digits: no drawing shows more, and all would be half of results.json.

    >>> _drawn(0.16722668415), _drawn(1234567.0)
    (0.167227, 1234570.0)
    """
    return float(f"{value:.6g}")


Page = Callable[[Request], Iterable[ResultRow]]
IN_JAX = ("thesis",)
"""Pages that have their networks in JAX, too."""


def run_page(name: str, run: Page, request: Request) -> Iterator[ResultRow]:
    """The rows of a page as it makes them, each with the command that makes it and the commit that ran."""
    request.out.mkdir(parents=True, exist_ok=True)
    data = "" if request.data is None else " --data DATA"
    if request.jax and name not in IN_JAX:
        msg = f"expected --jax with {' or '.join(IN_JAX)}, whose networks JAX can train, got {name}: leave it out"
        raise ConfigError(msg)
    command = f"python -m nightjar.experiments.{name} --form {request.form.value}{data}{' --jax' * request.jax}"
    commit = _commit()
    for each in run(request):
        yield msgspec.structs.replace(each, command=command + each.command, commit=commit, page=name)


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"],  # noqa: S607 the user's git
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    return found.stdout.strip()


def show(rows: Sequence[ResultRow], *, as_json: bool) -> None:
    """Print rows: as JSON, or a line each."""
    if as_json:
        click.echo(msgspec.json.encode(rows))
        return
    for each in rows:
        beside = [
            f"{name} {value:.4g}"
            for name, value in (("printed", each.printed), ("pooled", each.pooled), *each.figures.items())
            if value is not None
        ]
        note = f"; {each.note}" if each.note else ""
        measured = f"{'> ' * each.bound}{each.measured:.4g}"
        click.echo(f"{each.page}: {each.name}: {each.measure} {measured} ({', '.join(beside)}){note}")


def options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that runs pages."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON."),
        click.option("--data", type=click.Path(path_type=Path, exists=True), help="Folder of the data sets."),
        click.option("--out", type=click.Path(path_type=Path), default=Path("build/experiments"), show_default=True),
        click.option("--jax", is_flag=True, help="Train with JAX, on a GPU if there is one: the thesis only."),
        click.option("--only", default="", help="Only rows with this in their names, on pages of many."),
        click.option("--form", type=click.Choice([each.value for each in Form]), default="short", show_default=True),
    ):
        command = option(command)
    return command


def request_of(
    form: str, out: Path, data: Path | None, only: str, done: frozenset[str] = frozenset(), *, jax: bool = False
) -> Request:
    """The request that options make; NIGHTJAR_EXPERIMENTS_DATA stands in for ``--data``, but not in smoke forms."""
    named = os.environ.get("NIGHTJAR_EXPERIMENTS_DATA")
    chosen = data or (Path(named) if named else None)
    return Request(Form(form), out, None if form == "smoke" else chosen, only, done, jax)


def page_command(name: str, run: Page) -> click.Command:
    """The command of a page.

    Args:
        name: the module below ``experiments``.
        run: the page.
    """

    def command(form: str, out: Path, data: Path | None, only: str, *, jax: bool, as_json: bool) -> None:
        try:
            rows = list(run_page(name, run, request_of(form, out / name, data, only, jax=jax)))
        except ConfigError as error:
            raise click.ClickException(str(error)) from error
        show(rows, as_json=as_json)

    return click.command(name, help=run.__doc__)(options(command))
