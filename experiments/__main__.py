"""``python -m experiments``: runs every page and, with ``--record``, keeps its rows in experiments/results.json."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click

from experiments.frame import Row, options, request_of, run_page, show
from experiments.record import keep, results
from wire.errors import ConfigError

PAGES = (
    "thesis",
    "catalogue.fednova",
    "catalogue.scaffold",
    "catalogue.q_fedavg",
    "catalogue.easgd",
    "catalogue.overlap",
    "catalogue.adacomm",
    "catalogue.dgc",
    "catalogue.selective_sgd",
    "catalogue.random_k",
    "catalogue.two_sided",
    "catalogue.adaptive_density",
    "catalogue.pruning",
    "catalogue.cmfl",
    "catalogue.oort",
    "catalogue.tifl",
    "catalogue.fedcs",
    "catalogue.per_fedavg",
    "catalogue.apfl",
    "catalogue.ifca",
    "catalogue.cfl",
    "catalogue.distilling",
    "catalogue.fed_plus",
    "catalogue.refusals",
    "dirichlet",
    "synthetic",
    "shakespeare",
    "hierarchical",
    "delay",
    "cifar",
    "vertical_linear",
    "secure_boost",
    "secure_fedavg",
    "split_learning",
    "cpfed",
    "skew_study",
    "memorisation",
    "language_model",
    "alexnet",
    "medical",
)
"""The pages, in the order of docs/experiments.md: modules below ``experiments`` with a function ``run``."""


@click.command()
@options
@click.option("--page", "chosen", multiple=True, type=click.Choice(PAGES), help="Only these pages.")
@click.option("--record", is_flag=True, help="Keep the rows in experiments/results.json.")
@click.option("--resume", is_flag=True, help="With --record: leave out cells of the thesis that are in it.")
def main(
    form: str,
    out: Path,
    data: Path | None,
    only: str,
    *,
    chosen: tuple[str, ...],
    as_json: bool,
    record: bool,
    resume: bool,
) -> None:
    """Run all pages of experiments, one after another."""
    if record and form == "smoke":
        msg = "a smoke form shows nothing that is worth recording"
        raise click.UsageError(msg)
    rows: list[Row] = []
    lacking: list[str] = []
    for name in chosen or PAGES:
        done = frozenset(each.name for each in results() if resume and (each.page, each.form) == (name, form))
        request = request_of(form, out / name, data, only, done)
        try:
            for each in run_page(name, import_module(f"experiments.{name}").run, request):
                if record:
                    keep([each])
                if not as_json:
                    show([each], as_json=False)
                rows.append(each)
        except ConfigError as error:
            lacking.append(f"{name}: {error}")
    if as_json:
        show(rows, as_json=True)
    if lacking:
        raise click.ClickException("not run: " + "; ".join(lacking))


if __name__ == "__main__":
    main()
