"""The two populations of phones, and the initial model and data of their trainings.

The model starts from a short central warm-up on the text of people who are not phones: it knows word frequencies and
little else. From there, dense training clearly learns, so compression has something to lose. From random weights, most
of the decrease in loss would be word frequency; from a well trained model, the loss would hardly decrease.
"""

from __future__ import annotations

from dataclasses import dataclass

from nightjar.edge_agent.ports import Program
from nightjar.models.batches import Batches
from nightjar.models.configurations import configuration
from nightjar.models.corpora import Corpus
from nightjar.models.keyboard import batches_of
from nightjar.simulation.collect_updates import choose_clients
from nightjar.simulation.warm_start import full_vocabulary, load_device, seeded, warm_up, warm_up_batches
from nightjar.wire.parameters import ParameterLayout, Vector

MODEL = "tiny"
WARM_UP_STEPS = 100
HELD_OUT_SHARE = 0.2
TEST_MESSAGES = 2_500
"""Held-out messages for evaluation, drawn from all phones; the recall has a standard error of about 0.3 points."""


@dataclass(frozen=True, slots=True)
class Population:
    """How often phones take part, and how they train.

    Attributes:
        name: name of the population.
        phones: number of phones.
        cohort: number of phones in each round, drawn at random.
        rounds: few enough that the dense training still learns at the end.
        fewest_messages: minimum number of messages of a phone, held-out ones included.
        learning_rate: learning rate of the phones, chosen for the dense training on one seed: for ``rare`` the best of
            1, 3 and 6, for ``often`` 1, because 3 overfits after 40 rounds.
    """

    name: str
    phones: int
    cohort: int
    rounds: int
    fewest_messages: int
    learning_rate: float


POPULATIONS = (
    # Each phone is in every other round, so error feedback soon sends what a report left out.
    Population("often", phones=40, cohort=20, rounds=50, fewest_messages=100, learning_rate=1.0),
    # Each phone takes part once or twice, some 30 rounds apart, so its residual is stale. A phone that takes part only
    # once never sends its residual, so error feedback changes nothing there.
    Population("rare", phones=1_000, cohort=20, rounds=80, fewest_messages=20, learning_rate=3.0),
)


@dataclass(frozen=True, slots=True, eq=False)
class PopulationSetting:
    """The initial model and data of every training of one population and seed.

    Attributes:
        population: the population.
        seed: root seed; cohorts and shuffles are the same for every codec.
        device: program on which all phones train, one after the other.
        layout: layout of n parameters.
        start: (n,) float32, the weights after the warm-up.
        phones: training messages of each phone, packed.
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
    """Choose the phones, hold out a part of their text, and warm up the model on the text of others.

    Raises:
        CorpusError: too few people with enough messages.
        UnavailableError: the program could not be exported.
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
