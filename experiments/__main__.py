"""``python -m nightjar.experiments``: runs every page; ``--record`` keeps the rows in experiments/results.json."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path

import click

from nightjar.experiments.data_sets import MissingDataError
from nightjar.experiments.frame import ResultRow, options, request_of, show
from nightjar.experiments.record import keep, results
from nightjar.experiments.running import Ended, run_pages
from nightjar.wire.errors import ConfigError, UnavailableError

PAGES = {
    "thesis": 77,
    "catalogue.fednova": 21,
    "catalogue.scaffold": 26,
    "catalogue.q_fedavg": 36,
    "catalogue.easgd": 46,
    "catalogue.overlap": 47,
    "catalogue.adacomm": 40,
    "catalogue.dgc": 11,
    "catalogue.selective_sgd": 6,
    "catalogue.random_k": 11,
    "catalogue.two_sided": 22,
    "catalogue.adaptive_density": 74,
    "catalogue.pruning": 82,
    "catalogue.cmfl": 11,
    "catalogue.oort": 10,
    "catalogue.tifl": 8,
    "catalogue.fedcs": 10,
    "catalogue.per_fedavg": 24,
    "catalogue.apfl": 17,
    "catalogue.ifca": 15,
    "catalogue.cfl": 20,
    "catalogue.distilling": 31,
    "catalogue.fed_plus": 15,
    "catalogue.refusals": 1,
    "dirichlet": 59,
    "synthetic": 57,
    "shakespeare": 115,
    "hierarchical": 4,
    "delay": 9,
    "cifar": 149,
    "vertical_linear": 41,
    "secure_boost": 8,
    "secure_fedavg": 2,
    "split_learning": 14,
    "cpfed": 6,
    "skew_study": 23,
    "memorisation": 33,
    "language_model": 29,
    "alexnet": 181,
    "medical": 59,
}
"""The pages, in the order of docs/experiments.md, with about the processor seconds of the short form.

A page is a module below ``experiments`` with a function ``run``. The seconds weigh the time left.
"""


class Progress:
    """Says what each page took, and when the rest will be done.

    Args:
        expected: page -> its processor seconds; empty where they are unknown.
    """

    def __init__(self, expected: Mapping[str, float]) -> None:
        self._left = dict(expected)
        self._spent = 0.0  # of what was expected
        self._began_s = time.monotonic()

    def passed(self, ended: Ended) -> str:
        """The line after a page."""
        line = f"{ended.name}: {ended.wall_s:.0f} s, {ended.processor_s:.0f} s of processors"
        expected = self._left.pop(ended.name, 0.0)
        if ended.fault is None:
            self._spent += expected
        if self._left and self._spent:
            left_s = (time.monotonic() - self._began_s) * sum(self._left.values()) / self._spent
            line += f"; pages left: {len(self._left)}, about {math.ceil(left_s / 60)} min"
        return line


@click.command()
@options
@click.option("--page", "chosen", multiple=True, type=click.Choice(PAGES), help="Only these pages.")
@click.option("--record", is_flag=True, help="Keep the rows in experiments/results.json.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 256), help="Pages side by side.")
@click.option("--resume", is_flag=True, help="With --record: leave out cells of the thesis that are in it.")
def main(
    form: str,
    out: Path,
    data: Path | None,
    only: str,
    *,
    chosen: tuple[str, ...],
    jax: bool,
    as_json: bool,
    record: bool,
    jobs: int,
    resume: bool,
) -> None:
    """Run all pages of experiments; pages whose data set is missing are left out.

    Status 2: a page that was chosen did not run, or its data set is broken. Status 3: a page's process was killed.
    """
    if record and form == "smoke":
        msg = "a smoke form shows nothing that is worth recording"
        raise click.UsageError(msg)
    rows: list[ResultRow] = []
    failed: dict[str, ConfigError] = {}
    names = list(chosen or PAGES)
    progress = Progress({name: PAGES[name] for name in names} if form == "short" else {})
    requests, kept = {}, results() if resume else []
    # Side by side the dearest begin first, so that none is left alone at the end.
    for name in names if jobs == 1 else sorted(names, key=lambda name: -PAGES[name]):
        done = frozenset(each.name for each in kept if (each.page, each.form) == (name, form))
        requests[name] = request_of(form, out / name, data, only, done, jax=jax)
    try:
        for each in run_pages(requests, jobs):
            if isinstance(each, ResultRow):
                if record:
                    keep([each])
                if not as_json:
                    show([each], as_json=False)
                rows.append(each)
                continue
            line = progress.passed(each)
            if each.fault is None:
                click.echo(line, err=True)
            else:
                failed[each.name] = each.fault
    except UnavailableError as error:
        click.echo(f"experiments: {error}", err=True)
        raise click.exceptions.Exit(UnavailableError.exit_status) from error
    if as_json:
        rows.sort(key=lambda each: names.index(each.page))
        show(rows, as_json=True)
    for name, fault in failed.items():
        click.echo(f"not run: {name}: {fault}", err=True)
    if any(chosen or not isinstance(fault, MissingDataError) for fault in failed.values()):
        raise click.exceptions.Exit(ConfigError.exit_status)


if __name__ == "__main__":
    main()
