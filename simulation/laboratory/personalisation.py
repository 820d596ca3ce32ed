"""What people gain when each one's device goes on training the fleet's model for its owner alone.

Each method trains from the fleet's weights on a person's own messages. Then the device decides as the product does: of
no, half and all of the change it keeps what is better on messages that were held back (:func:`nightjar.edge_agent.core.
personalisation.better`). The figures are of later messages.

=================== ==================================================================================================
fine-tuning         SGD as in a round: the product's
fine-tuning, kept   the same, but all of the change is kept, whatever the held-back messages say
ditto               three epochs with a pull back to the fleet's weights: ``f(v) + lambda / 2 |v - w|^2``, lambda 0.1
private projection  only the last layer before the tied embedding changes: FedPer's private layers
*, in its rounds    what the person's device learned in the rounds themselves, if ``[personal]`` says so; all of it is
                    kept. Under FedPer the fleet's model alone has a projection that was never trained
=================== ==================================================================================================

pFedMe minimises the same objective as Ditto on a device; they differ in what goes to the server, which is not measured
here.

Sources: Yu et al. 2020, "Salvaging federated learning by local adaptation"; Li et al. 2021, "Ditto"; Dinh et al. 2020,
"Personalized Federated Learning with Moreau Envelopes"; Arivazhagan et al. 2019, "Federated Learning with
Personalization Layers".
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np

from nightjar.edge_agent.core.personalisation import ENOUGH_WORDS, best_share
from nightjar.edge_agent.core.results import Evaluation, TrainingStopped
from nightjar.edge_agent.core.training import evaluate, train
from nightjar.edge_agent.ports import Program
from nightjar.models.batches import Batches
from nightjar.models.configurations import configuration
from nightjar.models.keyboard import batches_of, held_out
from nightjar.simulation.laboratory.checkpoint import restored_weights
from nightjar.simulation.laboratory.clients import kept, own_weights, private_part
from nightjar.simulation.laboratory.training import PreparedTraining
from nightjar.simulation.warm_start import seeded
from nightjar.wire.errors import CorpusError
from nightjar.wire.messages import TrainingPlan
from nightjar.wire.parameters import Vector

HELD_BACK = 0.2
"""Share of a person's messages that decide and are not trained on."""
WORSE = 0.01
"""A person is worse off with a loss of more than a point of top-1 recall."""


@dataclass(frozen=True, slots=True)
class Method:
    """A way to personalise."""

    name: str
    plan: Callable[[TrainingPlan], TrainingPlan] = lambda plan: plan  # changes the experiment's plan
    private: bool = False  # whether only the parameter PRIVATE changes
    decides: bool = True  # whether held-back messages decide what is kept


METHODS = (
    Method("fine-tuning"),
    Method("fine-tuning, kept", decides=False),
    Method("ditto", lambda plan: msgspec.structs.replace(plan, proximal=0.1, local_epochs=3)),
    Method("private projection", lambda plan: msgspec.structs.replace(plan, local_epochs=3), private=True),
)


class Personalised(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a method; recall from 0 to 1 on later messages."""

    method: str
    people: int  # people with enough held-back and later words
    words: int  # their later words
    top1_before: float  # recall of the fleet's model
    top1: float  # recall of what each person kept
    top3_before: float  # the same for the best three
    top3: float  # the same
    mean_gain: float  # mean over people of the gain in top-1 recall
    gain_error: float  # standard error of that mean
    worse_share: float  # share of the people who lost more than a point
    kept_share: float  # share of the people who kept a change


@dataclass(frozen=True, slots=True, eq=False)
class _Person:
    number: int
    trained: Batches
    held_back: Batches
    later: Batches


def personalise(prepared: PreparedTraining, most: int) -> list[Personalised]:
    """Try every method on the finished model and so many people, drawn by the seed among those with enough words.

    Raises:
        CorpusError: nobody has enough words.
        UnavailableError: the run has not ended a round.
    """
    device, weights = prepared.load_program(), restored_weights(prepared.folder)
    people = _people(prepared, device, weights, most)
    if not people:
        msg = f"nobody has {ENOUGH_WORDS} held-back and {ENOUGH_WORDS} later words: give a corpus with longer histories"
        raise CorpusError(msg)
    before = [_figures(device, weights, person.later) for person in people]
    ways: dict[str, Callable[[_Person], Vector | None]] = {
        method.name: partial(_chosen, method, prepared, device, weights) for method in METHODS
    }
    if prepared.experiment.personal.method:
        ways[f"{prepared.experiment.personal.method}, in its rounds"] = partial(_learned, prepared, weights)
    return [_outcome(name, choose, device, people, before) for name, choose in ways.items()]


def _people(prepared: PreparedTraining, device: Program, weights: Vector, most: int) -> list[_Person]:
    shape = configuration(prepared.experiment.model)

    def packed(messages: Sequence[str]) -> Batches:
        return batches_of(messages, prepared.vocabulary, shape.batch_rows, shape.sequence_length)

    found: list[_Person] = []
    device.restore(weights)
    for number in seeded(prepared.seed, "personalisation").permutation(len(prepared.people.train)).tolist():
        if len(found) == most:
            break
        trained, held_back = held_out(prepared.people.train[number], HELD_BACK)
        person = _Person(number, packed(trained), packed(held_back), packed(prepared.people.later[number]))
        if min(person.held_back.targets, person.later.targets) < ENOUGH_WORDS or not person.trained.targets:
            continue
        if min(evaluate(device, part).counted for part in (person.held_back, person.later)) >= ENOUGH_WORDS:
            found.append(person)
    return found


def _outcome(
    name: str,
    choose: Callable[[_Person], Vector | None],
    device: Program,
    people: Sequence[_Person],
    before: Sequence[Evaluation],
) -> Personalised:
    after, changed = [], 0
    for person, former in zip(people, before, strict=True):
        chosen = choose(person)
        changed += chosen is not None
        after.append(former if chosen is None else _figures(device, chosen, person.later))
    words = sum(each.counted for each in before)
    gains = [(b.top1 - a.top1) / a.counted for a, b in zip(before, after, strict=True)]
    return Personalised(
        method=name,
        people=len(people),
        words=int(words),
        top1_before=sum(each.top1 for each in before) / words,
        top1=sum(each.top1 for each in after) / words,
        top3_before=sum(each.top3 for each in before) / words,
        top3=sum(each.top3 for each in after) / words,
        mean_gain=statistics.fmean(gains),
        gain_error=statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf,
        worse_share=sum(gain < -WORSE for gain in gains) / len(gains),
        kept_share=changed / len(people),
    )


def _chosen(
    method: Method, prepared: PreparedTraining, device: Program, weights: Vector, person: _Person
) -> Vector | None:
    """The weights that a person keeps; None for the fleet's."""
    device.restore(weights)
    shuffle = seeded(prepared.seed, "personalise", person.number)
    plan = method.plan(prepared.experiment.training_plan())
    done = train(device, person.trained, plan, shuffle, lambda: False, lambda: 0.0)
    if isinstance(done, TrainingStopped):
        return None
    change = done.delta
    if method.private:
        part = private_part(prepared.layout)
        change = np.zeros_like(done.delta)
        change[part] = done.delta[part]

    def with_share(share: float) -> Vector:
        return weights + np.float32(share) * change

    if not method.decides:
        return with_share(1.0)
    share = best_share(
        lambda share: _figures(device, with_share(share), person.held_back),
        _figures(device, weights, person.held_back),
    )
    return with_share(share) if share else None


def _learned(prepared: PreparedTraining, weights: Vector, person: _Person) -> Vector | None:
    """The weights that a person's device has from the rounds; None if it took part in none."""
    own = kept(prepared.folder, person.number, prepared.experiment.rounds + 1)
    return None if own is None else own_weights(prepared.layout, weights, own)


def _figures(device: Program, weights: Vector, batches: Batches) -> Evaluation:
    device.restore(weights)
    return evaluate(device, batches)
