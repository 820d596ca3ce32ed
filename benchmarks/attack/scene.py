"""The scene of the attacks: whose text is attacked, whose the attacker has, and a partly trained model.

Four groups, drawn by the seed: the *members* train; the *outsiders* never do, and are like them; the *shadows* are
people whose text the attacker has, to practise on; everybody else's text is public, and warms the model up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from nightjar.coordinator.tasks.settings import PlanConfig, StrategyConfig
from nightjar.edge_agent.shell.tflite import TfliteProgram
from nightjar.host.files import replace_file
from nightjar.models import corpora
from nightjar.models.batches import Batches
from nightjar.models.configurations import ModelConfiguration, configuration
from nightjar.models.keyboard import batches_of, held_out
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.simulation.collect_updates import FEWEST_MESSAGES, choose_clients
from nightjar.simulation.laboratory.clients import Device
from nightjar.simulation.laboratory.experiment import PersonalSettings
from nightjar.simulation.progress import progress, say
from nightjar.simulation.warm_start import full_vocabulary, load_device, seeded, warm_up, warm_up_batches
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, Vector, weights_from_bytes, weights_to_bytes

FOLDER = Path("build") / "attack"
GROUPS = 3
LATER_SHARE = 0.2
"""Share of a person's messages, the last ones, that nobody trains on: they measure the model."""
WARM_UP_STEPS = {"tiny": 500, "gboard": 1_000}
"""Fewer than :mod:`nightjar.simulation.collect_updates` takes, so that an honest run has something to learn."""


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What all attacks share."""

    shape: ModelConfiguration
    vocabulary: Vocabulary  # of the public text, the commonest word first
    weights: Vector  # (n,) float32, of the warmed-up model
    device: Device  # batches of the members first, then of outsiders, then of shadows
    texts: tuple[tuple[str, ...], ...]  # the messages that each of them trains on
    group: int  # number of people in each of the three
    measured: Batches  # later messages of all of them
    later: tuple[tuple[str, ...], ...]  # the same as words
    seed: int

    @property
    def layout(self) -> ParameterLayout:
        """Layout of the n parameters."""
        return self.device.layout

    @property
    def members(self) -> range:
        """The people who train."""
        return range(self.group)

    @property
    def outsiders(self) -> range:
        """People like the members, who do not train."""
        return range(self.group, 2 * self.group)

    @property
    def shadows(self) -> range:
        """People whose text the attacker has."""
        return range(2 * self.group, 3 * self.group)

    def packed(self, messages: Sequence[str]) -> Batches:
        """Messages as a device packs them."""
        return batches_of(list(messages), self.vocabulary, self.shape.batch_rows, self.shape.sequence_length)

    def typing(self, person: int, messages: Sequence[str]) -> Device:
        """The device, but that a person typed other messages."""
        batches = list(self.device.batches)
        batches[person] = self.packed(messages)
        return replace(self.device, batches=tuple(batches))


def make_scene(corpus: str, model: str, group: int, seed: int, console: Console, steps: int | None = None) -> Scene:
    """Divide a corpus, and warm a model up or read it from the build folder; progress is printed.

    The corpus is ``personas``, ``pydoc``, or the path of a TSV file; if it has too few people, so have the groups. A
    warm-up has the model's default of steps if ``steps`` is None.

    Raises:
        CorpusError: too few people have enough messages.
        NightjarError: the program could not be made or run.
    """
    shape = configuration(model)
    text = corpora.load(corpus, seed, people=(GROUPS + 1) * group)
    able = sum(len(messages) >= FEWEST_MESSAGES for messages in text.users.values())
    if able < (GROUPS + 1) * group:  # the last quarter of the people is left for the warm-up
        group = max(1, able // (GROUPS + 1))
    people, public = choose_clients(text, GROUPS * group, seed)
    vocabulary, _ = full_vocabulary(public, shape.max_vocabulary)
    program = load_device(shape, vocabulary, seed)
    weights = _warmed_up(program, public, vocabulary, shape, seed, console, steps)
    plan = PlanConfig()
    typed = [messages[: -max(1, round(LATER_SHARE * len(messages)))] for messages in people]
    texts = tuple(tuple(held_out(messages, plan.evaluation_share)[0]) for messages in typed)
    later = [m for messages, known in zip(people, typed, strict=True) for m in messages[len(known) :]]
    scene = Scene(
        shape=shape,
        vocabulary=vocabulary,
        weights=weights,
        device=Device(
            program=program,
            layout=shape.layout(vocabulary.size),
            batches=(),
            plan=plan.plan(StrategyConfig().name),
            codec=CodecChoice(name="dense-f32"),
            seed=seed,
            personal=PersonalSettings(),
        ),
        texts=texts,
        group=group,
        measured=batches_of(later, vocabulary, shape.batch_rows, shape.sequence_length),
        later=tuple(tuple(words(message)) for message in later),
        seed=seed,
    )
    say(
        console,
        f"{text.name}: {group} members, as many outsiders and shadows; measured on {len(later):,} later messages; "
        f"{scene.layout.size:,} parameters",
    )
    return replace(scene, device=replace(scene.device, batches=tuple(map(scene.packed, texts))))


def _warmed_up(
    program: TfliteProgram,
    public: Sequence[str],
    vocabulary: Vocabulary,
    shape: ModelConfiguration,
    seed: int,
    console: Console,
    steps: int | None,
) -> Vector:
    steps = WARM_UP_STEPS[shape.name] if steps is None else steps
    content = hashlib.sha256("\n".join([*vocabulary.words, *public]).encode()).hexdigest()[:16]
    path = FOLDER / f"{shape.name}-{content}-{steps}-{seed}.f32"
    if path.exists():
        say(console, f"warm start: {path}")
        return weights_from_bytes(path.read_bytes(), shape.layout(vocabulary.size))
    batches = warm_up_batches(public, vocabulary, shape, steps, seed)
    warm_up(program, progress(console, batches, "warm-up steps"))
    weights = program.save()
    FOLDER.mkdir(parents=True, exist_ok=True)
    replace_file(path, weights_to_bytes(weights))
    return weights


def disjoint(people: Sequence[int], size: int, most: int, seed: int, what: str) -> list[list[int]]:
    """Disjoint cohorts of a size, drawn among at least as many people; one at least and ``most`` at most.

    >>> disjoint(range(5), 2, 9, 1, "doc")
    [[0, 4], [1, 2]]
    """
    order = [people[i] for i in seeded(seed, what, size).permutation(len(people)).tolist()]
    count = min(most, len(order) // size)
    return [sorted(order[i * size : (i + 1) * size]) for i in range(count)]
