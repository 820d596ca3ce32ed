"""Collects real client updates in a folder, before any codec.

``python -m simulation.collect_updates`` warms a model up on the text of some users, then lets other users train from
it, each with the device's TFLite program and the agent's own training loop, and stores each delta unchanged. Codecs are
measured on these, because synthetic updates lack the structure that codecs exploit. There are no rounds and no server
here, and no text is stored. The same options on the same machine give the same deltas.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import click
import msgspec
import numpy as np
from rich.console import Console

from edge_agent.core.training import TrainingStopped, train
from edge_agent.shell.tflite import runtime_name
from models import corpora
from models.configurations import CONFIGURATIONS, configuration
from models.corpora import Corpus
from models.keyboard import batches_of
from models.vocabulary import words
from models.warm_start import CLIP_NORM, RATE
from simulation.progress import progress, say
from simulation.warm_start import (
    evaluate,
    full_vocabulary,
    load_device,
    seeded,
    warm_up,
    warm_up_batches,
)
from wire.errors import ConfigError, CorpusError, NightjarError, RemoteProtocolError, UnavailableError
from wire.messages import TrainingPlan
from wire.parameters import ParameterLayout, Vector

T = TypeVar("T")

FORMAT = 1
"""Format number of the folder; any other is refused."""
LAYOUT = "layout.json"
ABOUT = "about.json"

WARM_UP_STEPS = {"tiny": 2_000, "gboard": 2_500}
"""The model then knows more than word frequencies but is far from converged; seconds (``tiny``) to a minute."""
FEWEST_MESSAGES = 20
"""A client with fewer hardly fills a batch."""
MOST_MESSAGES = 200
"""A client trains on at most this many messages, the last ones."""
PUBLIC_PEOPLE = 24
"""Number of people that ``personas`` invents in addition to the clients."""


class CollectedUpdate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Metadata of one delta."""

    file: str
    messages: int
    num_examples: int
    steps: int
    loss: float
    """Mean per target over the last local epoch, nats."""
    norm: float
    """L2 norm of the delta."""


class About(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Metadata of a folder of updates, sufficient to collect them again."""

    format: int
    corpus: str
    model: str
    seed: int
    clients: int
    warm_up_steps: int
    warm_up_rate: float
    learning_rate: float
    local_epochs: int
    clip_norm: float
    parameters: int
    vocabulary: int
    """Number of word ids; the maximum of the model."""
    invented_words: int
    """Number of invented words, which fill up the vocabulary; no text uses them."""
    runtime: str
    base_loss: float
    """Loss of the warmed-up model on the clients' messages, before training on them; mean per target, nats."""
    base_top1: float
    base_top3: float
    updates: tuple[CollectedUpdate, ...]


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """Settings of a collection.

    Attributes:
        corpus: ``personas``, ``pydoc``, or the path of a TSV file.
        model: name of the model configuration, used with its maximum vocabulary.
        clients: number of clients; each gives one update.
        seed: root seed.
        warm_up_steps: central steps on other users' text before the clients train; None takes the model's default.
        learning_rate: learning rate of the clients.
        local_epochs: local epochs of the clients.
    """

    corpus: str = "personas"
    model: str = "gboard"
    clients: int = 24
    seed: int = 1
    warm_up_steps: int | None = None
    learning_rate: float = 0.5
    local_epochs: int = 1


class Updates(NamedTuple):
    """Collected updates.

    Attributes:
        layout: layout of n parameters.
        deltas: (n,) float32 each, trained minus base.
        about: metadata; ``about.updates`` has one entry per delta.
    """

    layout: ParameterLayout
    deltas: list[Vector]
    about: About


def collect(settings: CollectionSettings, console: Console) -> Updates:
    """Warm a model up and let the clients train; progress is printed.

    Raises:
        ConfigError: the model, the corpus or the number of clients cannot be used.
        UnavailableError: the program could not be exported, or a client's training failed.
    """
    shape = configuration(settings.model)
    corpus = corpora.load(settings.corpus, settings.seed, people=settings.clients + PUBLIC_PEOPLE)
    people, public = choose_clients(corpus, settings.clients, settings.seed)
    vocabulary, invented = full_vocabulary(public, shape.max_vocabulary)
    say(
        console,
        f"corpus {corpus.name}: {len(people)} clients with {sum(map(len, people)):,} messages, other users with "
        f"{len(public):,}, vocabulary {vocabulary.size:,} ({invented:,} of them invented)",
    )
    steps = WARM_UP_STEPS[shape.family] if settings.warm_up_steps is None else settings.warm_up_steps
    device = load_device(shape, vocabulary, settings.seed)
    text = warm_up_batches(public, vocabulary, shape, steps, settings.seed)
    warm_up(device, progress(console, text, "warm-up steps"))
    base = device.save()
    batches = [batches_of(list(messages), vocabulary, shape.batch_rows, shape.sequence_length) for messages in people]
    loss, top1, top3 = evaluate(device, batches)
    say(
        console,
        f"the model before the clients: loss {loss:.3f}, top-1 {100 * top1:.1f} %, top-3 {100 * top3:.1f} %",
    )
    plan = TrainingPlan(learning_rate=settings.learning_rate, clip_norm=CLIP_NORM, local_epochs=settings.local_epochs)
    deltas, updates = [], []
    for number, packed in enumerate(progress(console, batches, "clients")):
        device.restore(base)
        generator = seeded(settings.seed, "clients", number)
        trained = train(device, packed, plan, generator, lambda: False, time.monotonic)
        if isinstance(trained, TrainingStopped):
            msg = f"client {number} could not train: {trained.detail}; try a smaller --learning-rate"
            raise UnavailableError(msg)
        deltas.append(trained.delta)
        updates.append(
            CollectedUpdate(
                file=f"client-{number:03d}.npy",
                messages=len(people[number]),
                num_examples=trained.num_examples,
                steps=trained.steps,
                loss=trained.loss,
                norm=float(np.linalg.norm(trained.delta)),
            )
        )
    layout = shape.layout(vocabulary.size)
    about = About(
        format=FORMAT,
        corpus=corpus.name,
        model=shape.name,
        seed=settings.seed,
        clients=len(people),
        warm_up_steps=steps,
        warm_up_rate=RATE,
        learning_rate=settings.learning_rate,
        local_epochs=settings.local_epochs,
        clip_norm=CLIP_NORM,
        parameters=layout.size,
        vocabulary=vocabulary.size,
        invented_words=invented,
        runtime=runtime_name(),
        base_loss=loss,
        base_top1=top1,
        base_top3=top3,
        updates=tuple(updates),
    )
    return Updates(layout, deltas, about)


def choose_clients(
    corpus: Corpus, clients: int, seed: int, fewest: int = FEWEST_MESSAGES
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Choose clients at random among the users with enough messages.

    Args:
        corpus: users and their messages; messages without a word are skipped.
        clients: number of clients.
        seed: root seed of the choice.
        fewest: minimum number of messages of a client.

    Returns:
        Each client's last ``MOST_MESSAGES`` messages, and all messages of the users who are not clients.

    Raises:
        CorpusError: too few users with enough messages, or no other user left.
    """
    spoken = {user: [m for m in messages if words(m)] for user, messages in corpus.users.items()}
    able = [user for user, messages in spoken.items() if len(messages) >= fewest]
    chosen = [able[i] for i in seeded(seed, "choice of clients").permutation(len(able))[:clients].tolist()]
    private = set(chosen)
    public = [m for user, messages in spoken.items() if user not in private for m in messages]
    if len(chosen) < clients or not public:
        msg = (
            f"{clients} clients need as many users with at least {fewest} messages, and one more user for the warm-up; "
            f"corpus {corpus.name!r} has {len(able)} such users of {len(spoken)}: use fewer clients or more text"
        )
        raise CorpusError(msg)
    return [tuple(spoken[user][-MOST_MESSAGES:]) for user in chosen], public


def save(folder: Path, updates: Updates) -> None:
    """Write updates to a folder; ``about.json`` last, so that a folder with one is complete.

    Raises:
        ConfigError: the folder is not empty.
        UnavailableError: the folder cannot be written.
    """
    check_empty(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LAYOUT).write_bytes(msgspec.json.encode(updates.layout) + b"\n")
        for update, delta in zip(updates.about.updates, updates.deltas, strict=True):
            np.save(folder / update.file, delta.astype("<f4", copy=False), allow_pickle=False)
        text = msgspec.json.format(msgspec.json.encode(updates.about), indent=2) + b"\n"
        (folder / ABOUT).write_bytes(text)
    except OSError as error:
        msg = f"cannot write the updates to {folder}: {error}; give a folder that can be written"
        raise UnavailableError(msg) from error


def load(folder: Path) -> Updates:
    """Read a folder written by :func:`save`.

    Raises:
        ConfigError: not a complete folder of updates of this format; the message names the file.
    """
    about = _read_json(folder / ABOUT, About)
    layout = _read_json(folder / LAYOUT, ParameterLayout)
    if about.format != FORMAT or about.parameters != layout.size or about.clients != len(about.updates):
        msg = (
            f"{folder}: expected format {FORMAT}, {layout.size} parameters and {len(about.updates)} clients, {ABOUT} "
            f"says {about.format}, {about.parameters} and {about.clients}; collect the updates again"
        )
        raise ConfigError(msg)
    return Updates(layout, [_read_delta(folder / update.file, layout) for update in about.updates], about)


def check_empty(folder: Path) -> None:
    """Check that the folder is empty or missing, so that updates of two runs are never mixed.

    Raises:
        ConfigError: the folder is not empty, or is a file.
    """
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists():
        msg = f"{folder} is not empty: give a new folder, or remove this one"
        raise ConfigError(msg)


def _read_json(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        msg = f"{path.parent} is no complete folder of updates: {path.name} cannot be read ({error.strerror or error})"
        raise ConfigError(msg) from error
    except (msgspec.DecodeError, RemoteProtocolError) as error:
        msg = f"{path}: {error}; collect the updates again"
        raise ConfigError(msg) from error


def _read_delta(path: Path, layout: ParameterLayout) -> Vector:
    try:
        delta: Vector = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        msg = f"{path} cannot be read as an array: {error}; collect the updates again"
        raise ConfigError(msg) from error
    if delta.shape != (layout.size,) or delta.dtype != np.float32 or not np.isfinite(delta).all():
        msg = f"{path}: expected ({layout.size},) finite float32, got {delta.shape} {delta.dtype}; collect again"
        raise ConfigError(msg)
    return delta


@click.command()
@click.option("--corpus", default="personas", show_default=True, help="personas, pydoc, or a TSV file (user, text).")
@click.option("--model", default="gboard", show_default=True, help=f"Configuration: {', '.join(CONFIGURATIONS)}.")
@click.option("--clients", default=24, show_default=True, type=click.IntRange(1), help="Updates to collect.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 2**31), help="Root seed.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Output folder; new or empty.")
@click.option(
    "--warm-up-steps",
    default=None,
    type=click.IntRange(0),
    help="Central steps before the clients train; default: "
    + ", ".join(f"{steps} for {name}" for name, steps in WARM_UP_STEPS.items())
    + ".",
)
@click.option(
    "--learning-rate", default=0.5, show_default=True, type=click.FloatRange(0, 1000, min_open=True), help="Of clients."
)
@click.option("--local-epochs", default=1, show_default=True, type=click.IntRange(1, 1000), help="Of clients.")
def command(
    *,
    corpus: str,
    model: str,
    clients: int,
    seed: int,
    out: Path,
    warm_up_steps: int | None,
    learning_rate: float,
    local_epochs: int,
) -> None:
    """Collect real updates: train clients with the device's TFLite program from a partly trained model.

    The folder gets layout.json, client-000.npy and so on ((n,) float32, trained minus base), and about.json. A client
    is a user with at least 20 messages and trains on the last 200; the model is warmed up on the text of the others.
    """
    settings = CollectionSettings(
        corpus=corpus,
        model=model,
        clients=clients,
        seed=seed,
        warm_up_steps=warm_up_steps,
        learning_rate=learning_rate,
        local_epochs=local_epochs,
    )
    check_empty(out)  # before minutes of training
    updates = collect(settings, Console())
    save(out, updates)
    norms = [update.norm for update in updates.about.updates]
    click.echo(
        f"{out}: {len(norms)} updates of {updates.layout.size:,} parameters, norm {min(norms):.2f} to {max(norms):.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; an expected error is printed as one line, without a traceback.

    Args:
        arguments: command line; None uses that of the process.
    """
    try:
        command(arguments, prog_name="simulation.collect_updates")
    except NightjarError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
