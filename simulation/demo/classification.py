"""Prepares a demo of phones that classify the rows or images of a folder, which is divided among them at random.

Every fifth example, at most 2,000, is held out on the coordinator. The heavy step runs in a child process.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console

from nightjar.models.classification import Classification
from nightjar.models.folder import CLASSIFIERS
from nightjar.models.ngram import NgramRecall
from nightjar.simulation.demo.configuration import (
    DEFAULTS,
    DemoSettings,
    coordinator_table,
    free_ports,
    phone_table,
    write_toml,
)
from nightjar.simulation.demo.preparation import PreparedRun, configured, run_folder
from nightjar.simulation.demo.processes import outcome, quiet_child
from nightjar.simulation.demo.trust import signed_by_owner
from nightjar.wire.errors import ConfigError

TASK = "classification"
HELD_OUT, EXAMPLES = "held_out.npz", "examples.npz"
HELD_OUT_EVERY, MOST_HELD_OUT = 5, 2_000
PLAN = {"learning_rate": 0.1, "max_steps": 60}
"""Random weights: a rate of 1, as after a warm start, diverges. An accelerated day has no time for more steps."""


def prepare_classification(settings: DemoSettings, console: Console) -> PreparedRun:
    """Prepare a run; progress is printed.

    Raises:
        ConfigError: an option, the examples or a port cannot be used.
        UnavailableError: a child process died.
    """
    if settings.model not in CLASSIFIERS:
        msg = f"--model of a classification: expected {', '.join(CLASSIFIERS)}, got {settings.model!r}"
        raise ConfigError(msg)
    with console.status("reading the examples"):
        x, labels = Classification().read(Path(settings.corpus))
    order = np.random.default_rng(settings.seed).permutation(len(x))
    held, typed = order[::HELD_OUT_EVERY][:MOST_HELD_OUT], np.delete(order, np.s_[::HELD_OUT_EVERY])
    if len(typed) < settings.phones:
        msg = f"--corpus {settings.corpus}: expected examples for {settings.phones} phones, got {len(x)}"
        raise ConfigError(msg)
    defaults = DEFAULTS["tiny" if settings.model in {"logistic", "2nn"} else "gboard"]
    ports, folder = free_ports(settings.port), run_folder(settings)
    y = np.array(labels)
    np.savez(folder / HELD_OUT, x=x[held], y=y[held])
    with (
        console.status(f"exporting model {settings.model} to TFLite"),
        quiet_child(folder / "logs" / "preparation.log") as child,
    ):
        exporting = child.submit(export, settings.model, Path(settings.corpus), folder / "model", settings.seed)
        outcome(exporting, "the export")
    commonest = [count / len(held) for _, count in Counter(y[held].tolist()).most_common(3)]
    baseline = NgramRecall(commonest[0], sum(commonest), len(held))
    coordinator = coordinator_table(settings, defaults, ports, baseline)
    coordinator["task"] |= {"name": TASK, "evaluation_text": HELD_OUT, "plan": PLAN}
    coordinator["task"]["baseline"]["label"] = "commonest class"
    configs, owner_key = [], signed_by_owner(folder)
    for number in range(settings.phones):
        table = phone_table(settings, number, ports, 86_400 / (settings.day_s or defaults.day_s), owner_key)
        del table["emulator"]["messages"]
        table |= {"keyboard": {"enabled": False}, "store": {"examples": EXAMPLES}}
        home = folder / table["device"]
        home.mkdir()
        mine = typed[number :: settings.phones]
        np.savez(home / EXAMPLES, x=x[mine], y=y[mine])
        configs.append(write_toml(home / "agent.toml", table))
    console.print(
        f"{settings.corpus}: {len(x):,} examples of shape {x.shape[1:]}, {len(set(labels))} classes, "
        f"{len(held):,} held out; the commonest class makes {100 * baseline.top1:.1f} %",
        highlight=False,
        soft_wrap=True,
    )
    return configured(
        settings, console, folder, coordinator, configs, ports, defaults, corpus_name=settings.corpus, baseline=baseline
    )


def export(model: str, examples: Path, out: Path, seed: int) -> None:
    """Write the folder of a model for some examples; to be called in a child process."""
    from nightjar.models.classifiers import export_classifier  # loads TensorFlow

    export_classifier(model, examples, out, seed)
