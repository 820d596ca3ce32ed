"""Experiment files: what is trained, on whose text, and how it is measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from nightjar.coordinator.learning.downlink import F32, FORMS
from nightjar.coordinator.learning.staleness import parse_staleness
from nightjar.coordinator.learning.strategies import MEDIAN, Aggregation
from nightjar.coordinator.tasks.settings import (
    RETIRED,
    CodecConfig,
    DpConfig,
    PlanConfig,
    Privacy,
    StrategyConfig,
    TaskSettings,
)
from nightjar.coordinator.tasks.validation import clipping_faults, privacy_faults, strategy_faults
from nightjar.host.configuration import ConfigurationReader, accepted, read_toml, warn_of
from nightjar.models.configurations import CONFIGURATIONS
from nightjar.models.warm_start import RATE
from nightjar.wire.codec import NAMES
from nightjar.wire.errors import NightjarError
from nightjar.wire.messages import CodecChoice, TrainingPlan

Share = Annotated[float, Meta(ge=0, lt=1)]
Count = Annotated[int, Meta(ge=1, le=2**31)]


class SplitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[split]``: who is who, drawn by the seed of a run; people with fewer messages are left out.

    Attributes:
        minimum_messages: messages that a person must have.
        most_active: so many people who wrote most train, whatever the seed; of the others, all who are not held out
            are public. 0: who trains is drawn.
        messages: the newest so many messages of each person who trains; 0 means all.
        held_out_people: share of the people who never train; the model is also measured on them.
        public_people: share of the people whose text is public: the start is made of it, and nothing else uses it.
        train: share of everybody else's messages, the oldest, to train on.
        validation: share of the messages after these, on which settings are chosen; the rest is the test.
    """

    minimum_messages: Count = 10
    most_active: Annotated[int, Meta(ge=0, le=2**31)] = 0
    messages: Annotated[int, Meta(ge=0, le=2**31)] = 0
    held_out_people: Share = 0.1
    public_people: Share = 0.0
    train: Annotated[float, Meta(gt=0, lt=1)] = 0.7
    validation: Share = 0.1


class StartSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[start]``: the weights of round 0.

    Attributes:
        pretrained: with vocabulary and n-gram model, as ``python -m nightjar.models pretrain`` makes them of the public
            people's text.
        passes: of central training over that text instead; 0 leaves the weights random.
        learning_rate: of that training.
    """

    pretrained: bool = False
    passes: Annotated[float, Meta(ge=0, le=1000)] = 0.0
    learning_rate: Annotated[float, Meta(gt=0, le=1000)] = RATE


class CohortSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[cohort]``: which devices take part in a round.

    Attributes:
        size: number of devices.
        candidates: of so many devices drawn uniformly those with the highest losses take part (power-of-choice); empty
            means all devices drawn.
        availability: CSV file with the windows in which phones are free, or ``generated``; empty means always.
        round_s: time from one round to the next, seconds; it matters only with availability.
        over_selection: devices selected per report that counts; what reports after these is wasted.
    """

    size: Count = TaskSettings().goal
    candidates: Count | None = None
    availability: str = ""
    round_s: Annotated[float, Meta(gt=0, le=86400)] = 600.0
    over_selection: Annotated[float, Meta(ge=1, le=10)] = 1.0

    def selected(self) -> int:
        """The devices that a round selects."""
        return math.ceil(round(self.size * self.over_selection, 9))  # in floats, 100 x 1.1 is slightly above 110


class TimeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[time]``: how long a device works for one report; it is the device's own and does not change.

    Attributes:
        training_s: median time to train, seconds; 0 means that nothing takes time.
        transfer_s: time to download a version and upload a report, seconds.
        spread: standard deviation of the logarithm of the training time, over people.
        slow_share: share of the people whose devices are slow beside that.
        slow_factor: how many times longer these train.
        selection_s: of a synchronous round, time until its devices have checked in, as in the simulation of rounds; in
            buffered rounds devices come while others work.
    """

    training_s: Annotated[float, Meta(ge=0, le=86400)] = 0.0
    transfer_s: Annotated[float, Meta(ge=0, le=86400)] = 10.0
    spread: Annotated[float, Meta(ge=0, le=3)] = 0.5
    slow_share: Share = 0.0
    slow_factor: Annotated[float, Meta(ge=1, le=1000)] = 10.0
    selection_s: Annotated[float, Meta(ge=0, le=86400)] = 0.0


class EvaluationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[evaluation]``: on what the model is measured, and how often."""

    every: Count = 10  # rounds from one measurement to the next; the last round is always measured
    part: Literal["validation", "test"] = "validation"  # validation, to choose settings; test, to report once
    messages: Count = 2_500  # most messages of the part, drawn by the seed
    average_rounds: Count = 1  # the average of the weights of so many last rounds is measured


class GateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[gate]``: which versions keyboards get, as the product decides it by what devices measure.

    Attributes:
        keyboards: devices measure their whole keyboards; what is measured by rounds is the announced version then.
        minimum: devices that must have measured a version; a task's minimum.
        patience: as of a task: so many rounds without a version that is announced pause it; 0 never.
    """

    keyboards: bool = False
    minimum: Count = TaskSettings().minimum
    patience: Annotated[int, Meta(ge=0, le=2**31)] = TaskSettings().patience


PRIVATE = "projection"
"""The parameter that FedPer keeps on the devices: the last layer before the tied embedding."""


class PersonalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[personal]``: what a device learns in its rounds for its owner alone; ``--personalise`` measures it.

    Attributes:
        method: fedper (the projection stays on the device) or ditto (a model of the person's own, with a pull to the
            fleet's); empty for neither.
        pull: lambda of Ditto.
    """

    method: Literal["", "fedper", "ditto"] = ""
    pull: Annotated[float, Meta(ge=0, le=1)] = 0.1


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A whole experiment. The defaults are those of the product.

    Attributes:
        corpus: personas, pydoc, or the path of a TSV file (user, text).
        model: name of a model configuration.
        rounds: how many rounds are trained.
        downlink: form in which new weights are published: f32 or topk-8.
        mode: synchronous, where a version is a round's, or buffered, where reports make versions as they come.
        buffer: with ``mode = "buffered"``, reports that make a version; the goal of a task.
        concurrency: devices that work at any time.
        staleness: how the weight of a report falls with the versions that came out since its own.
        max_staleness: most such versions; the report of older work is wasted.
        minimum_separation: with differential privacy, as in a task; the same people may take part more often here.
        people: with differential privacy, simulated number of people: noise and its accounting are those of rounds in
            which ``people / minimum_separation`` devices report, though ``cohort.size`` do; 0 simulates nobody.
    """

    corpus: str = "personas"
    model: str = "tiny"
    rounds: Count = 100
    split: SplitSettings = SplitSettings()
    start: StartSettings = StartSettings()
    cohort: CohortSettings = CohortSettings()
    mode: Literal["synchronous", "buffered"] = "synchronous"
    buffer: Count = 20
    concurrency: Count = 26
    staleness: str = "polynomial:0.5"
    max_staleness: Annotated[int, Meta(ge=0, le=1000)] = 10
    time: TimeSettings = TimeSettings()
    strategy: StrategyConfig = StrategyConfig()
    codec: CodecConfig = CodecConfig()
    plan: PlanConfig = PlanConfig()
    downlink: str = F32
    privacy: Privacy = Privacy.NONE
    dp: DpConfig = DpConfig()
    minimum_separation: Count = 1
    people: Annotated[int, Meta(ge=0, le=10**10)] = 0
    evaluation: EvaluationSettings = EvaluationSettings()
    personal: PersonalSettings = PersonalSettings()
    gate: GateSettings = GateSettings()

    def sent_as(self) -> CodecChoice:
        """How devices hand over their updates: for a secure sum whole, because the sum has its own compressor."""
        return CodecChoice(name="dense-f32") if self.privacy.summed else self.codec.choice()

    def people_at_once(self) -> int:
        """The people who are needed to train: selected for a round, or at work and in the buffer."""
        if self.mode == "buffered":
            return self.concurrency + self.buffer
        return self.cohort.selected()

    def training_plan(self) -> TrainingPlan:
        """The plan that a coordinator with these settings would send."""
        return self.plan.plan(self.strategy.name)


def read_experiment(path: Path, settings: Sequence[str] = ()) -> Experiment:
    """Read an experiment file, with overrides such as ``strategy.server_learning_rate=0.01``.

    Raises:
        ConfigError: the file cannot be read or used; the message lists all faults.
    """
    table = read_toml(path, "experiments/default.toml is one")
    retired = {f"codec.{name}": why for name, why in RETIRED.items()}
    reader = ConfigurationReader(path.parent, overrides(settings), prefix="", retired=retired)
    for setting in settings:
        if "=" not in setting:
            reader.faults.append(f"--set: expected KEY=VALUE, such as plan.learning_rate=3, got {setting!r}")
    reader.note_unknown_variables(Experiment)
    experiment = reader.read(Experiment, table)
    warn_of(path, reader.ignored)
    if experiment is not None:
        reader.faults.extend(_faults(experiment))
    return accepted(path, experiment, reader.faults)


def overrides(settings: Sequence[str]) -> Mapping[str, str]:
    """The settings by their names.

    >>> overrides(["plan.learning_rate=3", "strategy=fedadam"])
    {'plan.learning_rate': '3', 'strategy.name': 'fedadam'}
    """
    found = {}
    for setting in settings:
        key, given, value = setting.partition("=")
        name = key.strip()
        if given:
            name = f"{name}.name" if name in {"strategy", "codec"} else name
            found[name] = value.strip()
    return found


def _faults(experiment: Experiment) -> list[str]:
    faults = []
    split = experiment.split
    if experiment.model not in CONFIGURATIONS:
        faults.append(f"model: expected one of {', '.join(CONFIGURATIONS)}, got {experiment.model!r}")
    if split.train + split.validation >= 1:
        faults.append("split: expected train and validation to leave a part for the test, together they are 1 or more")
    if split.held_out_people + split.public_people >= 1:
        faults.append("split: expected held_out_people and public_people to leave people who train")
    if (experiment.start.passes or experiment.start.pretrained) and not (split.public_people or split.most_active):
        faults.append("start: its text is that of split.public_people, which is 0")
    if experiment.start.passes and experiment.start.pretrained:
        faults.append("start: expected passes or pretrained, not both")
    if experiment.codec.name not in NAMES:
        faults.append(f"codec.name: expected one of {', '.join(NAMES)}, got {experiment.codec.name!r}")
    if experiment.downlink not in FORMS:
        faults.append(f"downlink: expected one of {', '.join(FORMS)}, got {experiment.downlink!r}")
    cohort = experiment.cohort
    if cohort.candidates is not None and cohort.candidates < cohort.selected():
        faults.append("cohort.candidates: expected at least as many as cohort.size, times cohort.over_selection")
    if cohort.over_selection > 1 and not experiment.time.training_s:
        faults.append("cohort.over_selection: who reports first needs time.training_s, which is 0")
    if cohort.availability and experiment.time.training_s:
        faults.append("time.training_s: expected 0 with cohort.availability, whose rounds are cohort.round_s apart")
    if experiment.mode == "buffered":
        faults.extend(_buffered_faults(experiment))
    if experiment.gate.keyboards:
        faults.extend(_gate_faults(experiment))
    faults.extend(clipping_faults(experiment.privacy, experiment.dp, None, experiment.cohort.size))
    if experiment.privacy.noised:
        faults.extend(privacy_faults(experiment.strategy, experiment.plan, experiment.rounds))
        if experiment.cohort.candidates is not None:
            faults.append("cohort.candidates: who takes part may not follow from losses, which are not noised")
    if experiment.privacy.summed and experiment.strategy.aggregation is not Aggregation.MEAN:
        faults.append("strategy.aggregation: a secure sum gives the mean only; take mean")
    if experiment.privacy.summed and experiment.strategy.clip_quantile != MEDIAN:
        faults.append("strategy.clip_quantile: devices of a secure sum clip at the median; leave it out")
    return faults + strategy_faults(experiment.strategy, experiment.plan, experiment.codec, experiment.cohort.size)


def _gate_faults(experiment: Experiment) -> list[str]:
    faults = []
    if not experiment.start.pretrained:
        faults.append("gate.keyboards: a whole keyboard has an n-gram model; set start.pretrained")
    if not experiment.plan.evaluation_share:
        faults.append("gate.keyboards: keyboards are measured on plan.evaluation_share of the messages, which is 0")
    if not experiment.split.held_out_people:
        faults.append("gate.keyboards: a collapse is noticed on the text of split.held_out_people, who are none")
    if experiment.gate.minimum > experiment.cohort.size:
        faults.append(f"gate.minimum: expected at most cohort.size ({experiment.cohort.size})")
    if experiment.mode == "buffered" or experiment.privacy is not Privacy.NONE or experiment.downlink != F32:
        faults.append("gate.keyboards: expected synchronous rounds without privacy and with the downlink f32")
    if experiment.evaluation.average_rounds > 1:
        faults.append("gate.keyboards: expected evaluation.average_rounds = 1, because keyboards get a round's weights")
    return faults


def _buffered_faults(experiment: Experiment) -> list[str]:
    faults = []
    if not experiment.time.training_s:
        faults.append("mode: buffered needs time.training_s, which is 0")
    if experiment.privacy is not Privacy.NONE:
        faults.append(f"privacy: expected none with mode = 'buffered', got {experiment.privacy.value}")
    if experiment.cohort.candidates is not None:
        faults.append("cohort.candidates: there is no cohort with mode = 'buffered'")
    try:
        parse_staleness(experiment.staleness)
    except (ValueError, NightjarError) as error:
        faults.append(f"staleness: {error}")
    return faults
