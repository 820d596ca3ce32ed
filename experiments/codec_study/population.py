"""Who takes part: two populations, and what each federated training of one begins with.

The model begins with a short central warm-up on the text of people who are not phones: it knows how common words are
and little else. From there dense training plainly learns, so there is something that compression can lose. From random
weights most of the fall in loss would be word frequency; from a well trained model there would be hardly any.
"""

from __future__ import annotations

from dataclasses import dataclass

from edge_agent.ports import Program
from edge_agent.session import batches_of
from models.batches import Batches
from models.configurations import configuration
from models.corpora import Corpus
from simulation.collect_updates import choose_clients
from simulation.warm_start import full_vocabulary, load_device, seeded, warm_up, warm_up_batches
from wire.parameters import ParameterLayout, Vector

MODEL = "tiny"
WARM_UP_STEPS = 100
HELD_OUT_SHARE = 0.2
TEST_MESSAGES = 2_500
"""Held-out messages that a model is scored on, drawn from all phones; their recall has a standard error of about 0.3
points."""


@dataclass(frozen=True, slots=True)
class Population:
    """How often phones come back, and how they train.

    Attributes:
        name: for people.
        phones: how many there are.
        cohort: how many take part in each round, drawn by chance.
        rounds: so many that the dense training still learns at the end.
        fewest_messages: that a phone must have, the held-out ones included.
        learning_rate: of the phones, chosen for the dense training on one seed: for ``rare`` the best of 1, 3 and 6,
            for ``often`` 1, because 3 begins to learn the phones' text by heart after 40 rounds.
    """

    name: str
    phones: int
    cohort: int
    rounds: int
    fewest_messages: int
    learning_rate: float


POPULATIONS = (
    # Each phone is in every other round, so what a report leaves out can follow soon.
    Population("often", phones=40, cohort=20, rounds=50, fewest_messages=100, learning_rate=1.0),
    # Each phone takes part once or twice, some 30 rounds apart: what it left out has become old. A phone that is seen
    # only once never sends it, so there error feedback changes nothing at all.
    Population("rare", phones=1_000, cohort=20, rounds=80, fewest_messages=20, learning_rate=3.0),
)


@dataclass(frozen=True, slots=True, eq=False)
class PopulationSetting:
    """What every training of one population and seed begins with.

    Attributes:
        population: who takes part.
        seed: root of all randomness; the same cohorts and shuffles for every codec.
        device: the one on which all phones train, one after the other.
        layout: of n parameters.
        start: (n,) float32, the warmed-up weights.
        phones: what each phone typed, packed.
        test: held-out messages of all phones, packed.
    """

    population: Population
    seed: int
    device: Program
    layout: ParameterLayout
    start: Vector
    phones: tuple[Batches, ...]
    test: Batches


def prepare(corpus: Corpus, population: Population, seed: int) -> PopulationSetting:
    """Choose the phones, hold a part of their text out, and warm the model up on the text of others.

    Raises:
        CorpusError: not enough people with enough messages.
        UnavailableError: the program could not be made.
    """
    shape = configuration(MODEL)
    people, public = choose_clients(corpus, population.phones, seed, population.fewest_messages)
    vocabulary, _ = full_vocabulary(public, shape.max_vocabulary)
    device = load_device(shape, vocabulary, seed)
    warm_up(device, warm_up_batches(public, vocabulary, shape, WARM_UP_STEPS, seed))
    typed: list[Batches] = []
    held_out: list[str] = []
    for messages in people:
        kept = len(messages) - max(1, round(HELD_OUT_SHARE * len(messages)))
        typed.append(batches_of(list(messages[:kept]), vocabulary, shape.batch_rows, shape.sequence_length))
        held_out += messages[kept:]
    order = seeded(seed, "test").permutation(len(held_out))[:TEST_MESSAGES].tolist()
    test = batches_of([held_out[i] for i in order], vocabulary, shape.batch_rows, shape.sequence_length)
    return PopulationSetting(population, seed, device, shape.layout(vocabulary.size), device.save(), tuple(typed), test)
