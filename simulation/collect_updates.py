"""Real client updates, before any codec.

A model is warmed up on the text of some users, then others train from it, each with the device's TFLite program and the
agent's own training loop; each delta is kept unchanged. Codecs are measured on these, because synthetic updates lack
the structure that codecs exploit. There are no rounds and no server here. The same arguments on the same machine give
the same deltas.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from rich.console import Console

from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.core.training import train
from nightjar.models import corpora
from nightjar.models.configurations import configuration
from nightjar.models.corpora import Corpus
from nightjar.models.keyboard import batches_of
from nightjar.models.vocabulary import words
from nightjar.models.warm_start import CLIP_NORM
from nightjar.simulation.progress import progress, say
from nightjar.simulation.warm_start import evaluate, full_vocabulary, load_device, seeded, warm_up, warm_up_batches
from nightjar.wire.errors import CorpusError, UnavailableError
from nightjar.wire.messages import TrainingPlan
from nightjar.wire.parameters import ParameterLayout, Vector

WARM_UP_STEPS = {"tiny": 2_000, "gboard": 2_500}
"""The model then knows more than word frequencies but is far from converged; seconds (``tiny``) to a minute."""
LEARNING_RATE = 0.5
"""Of the clients, which train for one epoch."""
FEWEST_MESSAGES = 20
"""A client with fewer hardly fills a batch."""
MOST_MESSAGES = 200
"""A client trains on at most this many messages, the last ones."""
PUBLIC_PEOPLE = 24
"""Number of people that ``personas`` invents in addition to the clients."""


class Updates(NamedTuple):
    """Collected updates."""

    corpus: str  # whose text it was
    model: str
    seed: int
    layout: ParameterLayout
    deltas: list[Vector]  # (n,) float32 each, trained minus base; one of each client


def collect(
    corpus: str, clients: int, console: Console, model: str = "gboard", seed: int = 1, steps: int | None = None
) -> Updates:
    """Warm a model of the maximum vocabulary up and let the clients train, each for one update; progress is printed.

    The corpus is ``personas``, ``pydoc``, or the path of a TSV file. ``steps`` are those of the warm-up, on other
    users' text; None takes the model's default.

    Raises:
        ConfigError: the model, the corpus or the number of clients cannot be used.
        UnavailableError: the program could not be exported, or a client's training failed.
    """
    shape = configuration(model)
    found = corpora.load(corpus, seed, people=clients + PUBLIC_PEOPLE)
    people, public = choose_clients(found, clients, seed)
    vocabulary, invented = full_vocabulary(public, shape.max_vocabulary)
    say(
        console,
        f"corpus {found.name}: {len(people)} clients with {sum(map(len, people)):,} messages, other users with "
        f"{len(public):,}, vocabulary {vocabulary.size:,} ({invented:,} of them invented)",
    )
    device = load_device(shape, vocabulary, seed)
    text = warm_up_batches(public, vocabulary, shape, WARM_UP_STEPS[shape.family] if steps is None else steps, seed)
    warm_up(device, progress(console, text, "warm-up steps"))
    base = device.save()
    batches = [batches_of(list(messages), vocabulary, shape.batch_rows, shape.sequence_length) for messages in people]
    loss, top1, top3 = evaluate(device, batches)
    say(
        console,
        f"the model before the clients: loss {loss:.3f}, top-1 {100 * top1:.1f} %, top-3 {100 * top3:.1f} %",
    )
    plan = TrainingPlan(learning_rate=LEARNING_RATE, clip_norm=CLIP_NORM)
    deltas = []
    for number, packed in enumerate(progress(console, batches, "clients")):
        device.restore(base)
        trained = train(device, packed, plan, seeded(seed, "clients", number), lambda: False, time.monotonic)
        if isinstance(trained, TrainingStopped):
            msg = f"client {number} could not train: {trained.detail}"
            raise UnavailableError(msg)
        deltas.append(trained.delta)
    return Updates(found.name, shape.name, seed, shape.layout(vocabulary.size), deltas)


def choose_clients(
    corpus: Corpus, clients: int, seed: int, fewest: int = FEWEST_MESSAGES
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Choose clients at random among the users with ``fewest`` messages or more; messages without a word are skipped.

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
