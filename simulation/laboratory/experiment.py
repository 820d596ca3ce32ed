"""Experiment files: what is trained, on whose text, and how it is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from coordinator.learning.optimizers import OptimizerChoice, OptimizerName
from coordinator.tasks.settings import CodecConfig, PlanConfig, ServerConfig
from host.configuration import ConfigurationReader, accepted, read_toml
from models.configurations import CONFIGURATIONS
from models.warm_start import RATE
from wire.codec import MASKED, NAMES

Share = Annotated[float, Meta(ge=0, lt=1)]
Count = Annotated[int, Meta(ge=1, le=2**31)]
PREFIX = "LEARN"


class SplitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[split]``: who is who, drawn by the seed of a run; people with fewer messages are left out.

    Attributes:
        minimum_messages: messages that a person must have.
        held_out_people: share of the people who never train; the model is also measured on them.
        public_people: share of the people whose text is public: the warm start uses it and nothing else does.
        train: share of everybody else's messages, the oldest, that devices train on.
        validation: share of the messages after these, on which settings are chosen; the rest is the test.
    """

    minimum_messages: Count = 10
    held_out_people: Share = 0.1
    public_people: Share = 0.0
    train: Annotated[float, Meta(gt=0, lt=1)] = 0.7
    validation: Share = 0.1


class StartSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[start]``: the weights of round 0.

    Attributes:
        passes: of central training over the text of the public people; 0 leaves the weights random.
        learning_rate: of that training.
    """

    passes: Annotated[float, Meta(ge=0, le=1000)] = 0.0
    learning_rate: Annotated[float, Meta(gt=0, le=1000)] = RATE


class CohortSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[cohort]``: how many devices take part in each round, drawn uniformly."""

    size: Count = 20


class StrategySettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[strategy]``: how the mean update changes the model (:mod:`coordinator.learning.optimizers`).

    Attributes:
        name: fedavg, fedavgm, fedadagrad, fedadam or fedyogi.
        server_learning_rate: empty takes the product's default for the strategy.
        adaptivity: tau of the adaptive strategies.
    """

    name: OptimizerName = ServerConfig().optimizer
    server_learning_rate: Annotated[float, Meta(gt=0, le=1000)] | None = ServerConfig().learning_rate
    adaptivity: Annotated[float, Meta(gt=0, le=1)] = ServerConfig().adaptivity

    def choice(self) -> OptimizerChoice:
        """The optimizer that a coordinator with these settings would use."""
        server = ServerConfig(optimizer=self.name, learning_rate=self.server_learning_rate, adaptivity=self.adaptivity)
        return server.choice()


class EvaluationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[evaluation]``: on what the model is measured, and how often.

    Attributes:
        every: rounds from one measurement to the next; the last round is always measured.
        part: validation, to choose settings; test, to report once.
        messages: most messages of the part, drawn by the seed.
    """

    every: Count = 10
    part: Literal["validation", "test"] = "validation"
    messages: Count = 2_500


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A whole experiment. The defaults are those of the product.

    Attributes:
        corpus: personas, pydoc, or the path of a TSV file (user, text).
        model: name of a model configuration.
        rounds: how many rounds are trained.
    """

    corpus: str = "personas"
    model: str = "tiny"
    rounds: Count = 100
    split: SplitSettings = SplitSettings()
    start: StartSettings = StartSettings()
    cohort: CohortSettings = CohortSettings()
    strategy: StrategySettings = StrategySettings()
    codec: CodecConfig = CodecConfig()
    plan: PlanConfig = PlanConfig()
    evaluation: EvaluationSettings = EvaluationSettings()


def read_experiment(path: Path, settings: Sequence[str] = ()) -> Experiment:
    """Read an experiment file.

    Args:
        path: TOML file.
        settings: overrides such as ``strategy.server_learning_rate=0.01``.

    Raises:
        ConfigError: the file cannot be read or used; the message lists all faults.
    """
    table = read_toml(path, "experiments/default.toml is one")
    reader = ConfigurationReader(path.parent, overrides(settings), PREFIX)
    for setting in settings:
        if "=" not in setting:
            reader.faults.append(f"--set: expected KEY=VALUE, such as plan.learning_rate=3, got {setting!r}")
    reader.note_unknown_variables(Experiment)
    experiment = reader.read(Experiment, table)
    if experiment is not None:
        reader.faults.extend(_faults(experiment))
    return accepted(path, experiment, reader.faults)


def overrides(settings: Sequence[str]) -> Mapping[str, str]:
    """The settings in the form of environment variables.

    >>> overrides(["plan.learning_rate=3"])
    {'LEARN_PLAN_LEARNING_RATE': '3'}
    """
    pairs = (setting.split("=", 1) for setting in settings if "=" in setting)
    return {f"{PREFIX}_{key.strip().upper().replace('.', '_')}": value.strip() for key, value in pairs}


def _faults(experiment: Experiment) -> list[str]:
    faults = []
    split = experiment.split
    if experiment.model not in CONFIGURATIONS:
        faults.append(f"model: expected one of {', '.join(CONFIGURATIONS)}, got {experiment.model!r}")
    if split.train + split.validation >= 1:
        faults.append("split: expected train and validation to leave a part for the test, together they are 1 or more")
    if split.held_out_people + split.public_people >= 1:
        faults.append("split: expected held_out_people and public_people to leave people who train")
    if experiment.start.passes and not split.public_people:
        faults.append("start.passes: a warm start needs the text of split.public_people, which is 0")
    if experiment.codec.name not in NAMES or experiment.codec.name in MASKED:
        possible = ", ".join(name for name in NAMES if name not in MASKED)
        faults.append(f"codec.name: expected one of {possible}, got {experiment.codec.name!r}")
    return faults
