"""What a person may configure: one frozen type, with the reason beside each default.

Reading and checking the file is :mod:`coordinator.config_file`'s task. ``coordinator/example.toml`` shows every field.
"""

from __future__ import annotations

import enum
import ipaddress
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from coordinator.core.lease import SHARE_WINDOW
from coordinator.core.optimizers import OptimizerChoice, OptimizerName
from coordinator.core.rules import SHORTEST_RETRY_SHARE, RoundRules, rules_for
from coordinator.jobs import DownlinkChoice
from coordinator.publishing import FORMS
from models.manifest import Artifact
from wire.codec import MASKED, NAMES
from wire.identifiers import Sha256
from wire.messages import CodecChoice, TrainingPlan

Port = Annotated[int, Meta(ge=1, le=65535)]
Count = Annotated[int, Meta(ge=1, le=2**31)]
Seconds = Annotated[float, Meta(ge=0, le=30 * 86400)]
MIN_RETRY_S = 0.1
"""Even a selection of a second does not want the same device back at once."""
Name = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class BrokerKind(enum.Enum):
    """Who runs the MQTT broker."""

    AUTO = "auto"
    """mosquitto if it is installed, else the embedded broker."""
    MOSQUITTO = "mosquitto"
    EMBEDDED = "embedded"
    EXTERNAL = "external"
    """Somebody else; we only connect."""


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[broker]``: where messages go through."""

    kind: BrokerKind = BrokerKind.AUTO  # works on a fresh machine, and takes the better broker where there is one
    host: str = "127.0.0.1"  # nothing is open to a network unless somebody says so
    port: Port = 1883  # registered for MQTT
    username: str = "nightjar"  # the embedded broker keeps sessions only of clients that have a name
    password: str = ""  # empty: any name may connect, which is why a broker of ours then listens on loopback only
    allow_network: bool = False  # a broker of ours on another address than loopback must be meant


class CodecConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.codec]``: how updates are compressed."""

    name: str = "topk-4"  # 550 times smaller than dense at the density below
    density: Annotated[float, Meta(gt=0, le=1)] = 0.01  # measured: most of the dense progress for 1/100 of the values
    error_feedback: bool | None = None  # empty: on for top-k, where it always helped; off elsewhere (ADR 7)

    random_share: Annotated[float, Meta(ge=0, le=1)] = 0.2  # of a mask: what was never sent cannot show that it matters

    def choice(self, mask: Artifact | None = None) -> CodecChoice:
        """As it travels in an assignment; ``mask`` counts for the codecs that need one."""
        return CodecChoice(
            name=self.name,
            density=self.density,
            error_feedback=self.name.startswith("topk") if self.error_feedback is None else self.error_feedback,
            mask=Sha256(mask.sha256) if mask is not None and self.name in MASKED else None,
        )


class DownlinkConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.downlink]``: how new weights are published.

    Attributes:
        form: f32, f16, topk-8 or topk-4; all but f32 publish less than the optimizer says, and catch up later.
        density: share of the weights that a round moves, for topk-8 and topk-4.
        versions: how many versions back a device may be and still fetch only what changed.
    """

    form: str = "f32"  # nothing is lost, and after a round of sparse updates it is 30 times less than the whole already
    density: Annotated[float, Meta(gt=0, le=1)] = 0.05  # about what a cohort's sparse updates move together
    versions: Annotated[int, Meta(ge=1, le=32)] = 8  # a day of rounds; each costs a twentieth of a second a round

    def choice(self) -> DownlinkChoice:
        """As the worker gets it."""
        return DownlinkChoice(form=self.form, density=self.density)


class PlanConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.plan]``: what a device does with its examples."""

    learning_rate: Annotated[float, Meta(gt=0, le=1000)] = 1.0  # the largest that did no harm from a warm start
    clip_norm: Annotated[float, Meta(gt=0, le=1e9)] = 1.0  # bites rarely, and keeps large rates from NaN
    local_epochs: Annotated[int, Meta(ge=1, le=1000)] = 1  # more epochs drift away from the other devices
    max_steps: Annotated[int, Meta(ge=1, le=10**6)] = 1000  # an end even for a device with very much text
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0  # a device makes too few steps for it to matter
    proximal: Annotated[float, Meta(ge=0, le=1000)] = 0.0  # FedProx, for many local epochs; one does not drift far
    sampled_softmax: bool = False  # half the time of a step, at a little recall
    evaluation_share: Annotated[float, Meta(ge=0, le=0.5)] = 0.1  # enough to see on devices whether a round helped
    keep_share: Annotated[float, Meta(gt=0, le=1)] = 0.5  # half a training is worth its report, less is worth a dropout

    def plan(self) -> TrainingPlan:
        """As it travels in an assignment."""
        return TrainingPlan(
            learning_rate=self.learning_rate,
            clip_norm=self.clip_norm,
            local_epochs=self.local_epochs,
            max_steps=self.max_steps,
            momentum=self.momentum,
            proximal=self.proximal,
            sampled_softmax=self.sampled_softmax,
            evaluation_share=self.evaluation_share,
            keep_share=self.keep_share,
        )


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.server]``: how the mean update changes the model.

    Attributes:
        optimizer: fedavg, fedavgm, fedadagrad, fedadam or fedyogi.
        learning_rate: empty takes 1 for fedavg and fedavgm, 0.003 for the adaptive ones.
        momentum: beta1 of fedavgm, fedadam and fedyogi.
        second_momentum: beta2 of fedadam and fedyogi.
        adaptivity: tau of the adaptive ones: below it a coordinate's step shrinks with its mean update.
    """

    optimizer: OptimizerName = OptimizerName.FEDAVG  # from a warm start momentum did harm in few rounds
    learning_rate: Annotated[float, Meta(gt=0, le=1000)] | None = None  # 1 is McMahan's FedAvg; 0.003 never did harm
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.9  # the usual value; Reddi et al. use no other
    second_momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.99  # Reddi et al.; 0.999 forgets too slowly for few rounds
    adaptivity: Annotated[float, Meta(gt=0, le=1)] = 1e-4  # as in the runs that were measured

    def choice(self) -> OptimizerChoice:
        """As the worker gets it."""
        plain = self.optimizer in {OptimizerName.FEDAVG, OptimizerName.FEDAVGM}
        usual = 1.0 if plain else 0.003
        return OptimizerChoice(
            name=self.optimizer,
            learning_rate=usual if self.learning_rate is None else self.learning_rate,
            momentum=self.momentum,
            second_momentum=self.second_momentum,
            adaptivity=self.adaptivity,
        )


class BaselineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.baseline]``: a recall to compare with, such as a trigram's; the status page draws it as a line."""

    label: Annotated[str, Meta(min_length=1, max_length=60)]
    top1: Annotated[float, Meta(ge=0, le=1)]
    top3: Annotated[float, Meta(ge=0, le=1)]


class TaskConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task]``: what is learned, and how rounds go; two numbers say how long a round waits, the rest follows.

    Attributes:
        selection_deadline_s: how long a round waits for phones.
        report_deadline_s: how long a phone may take to train and to send.
        selection_window_s: shortest selection; derived, a 60th of selection_deadline_s.
        lost_grace_s: how long a selected phone may be gone; derived, a 12th of report_deadline_s, 10 s at most.
        minimum_separation: a phone whose report counts in a round may take part again so many rounds later.
        maximum_share: of the last 50 rounds, that one phone may have a report in.
        retry_after_s: shortest wait of a phone that is sent away; derived, a 15th of selection_deadline_s.
    """

    model: Path  # folder with program.tflite, weights.bin, vocabulary.txt and manifest.json
    name: Name = "keyboard"  # the demo
    evaluation_text: Path | None = None  # without held-out text nothing is measured, and TensorFlow is not needed
    rounds: Annotated[int, Meta(ge=0, le=2**31)] = 0  # endless: keyboards never stop changing
    goal: Count = 5  # a household or a lab; a fleet has hundreds
    minimum: Count = 2  # a mean of one device is that device
    over_selection: Annotated[float, Meta(ge=1, le=10)] = 1.3  # Bonawitz et al.: 6 to 10 % drop out, and some are slow
    selection_deadline_s: Annotated[float, Meta(ge=0.1, le=86400)] = 60.0  # a person who waits sees why within a minute
    report_deadline_s: Annotated[float, Meta(ge=1, le=30 * 86400)] = 600.0  # Android ends a session after 585 s
    selection_window_s: Seconds | None = None  # empty: derived; for tests and demos that run faster than life
    lost_grace_s: Seconds | None = None  # likewise
    minimum_examples: Annotated[int, Meta(ge=0, le=2**31)] = 1  # nothing to learn from none
    minimum_separation: Annotated[int, Meta(ge=1, le=SHARE_WINDOW)] = 1  # a household has few phones; a fleet says 10
    maximum_share: Annotated[float, Meta(gt=0, le=1)] = 1.0  # likewise; a fleet says 0.1
    max_examples: Count = 10_000  # cap of a report's weight: one talkative device must not be the model
    max_update_norm: Annotated[float, Meta(gt=0, le=1e9)] = 100.0  # 20 times the largest sound update measured
    retry_after_s: Annotated[float, Meta(ge=0.1, le=86400)] | None = None  # likewise
    codec: CodecConfig = CodecConfig()
    plan: PlanConfig = PlanConfig()
    server: ServerConfig = ServerConfig()
    downlink: DownlinkConfig = DownlinkConfig()
    baseline: BaselineConfig | None = None

    def rules(self) -> RoundRules:
        """What a round of this task is opened with."""
        return rules_for(
            goal=self.goal,
            minimum=self.minimum,
            over_selection=self.over_selection,
            selection_deadline_s=self.selection_deadline_s,
            report_deadline_s=self.report_deadline_s,
            selection_window_s=self.selection_window_s,
            lost_grace_s=self.lost_grace_s,
        )

    @property
    def shortest_retry_s(self) -> float:
        """No device is told to come back sooner."""
        derived_s = max(MIN_RETRY_S, SHORTEST_RETRY_SHARE * self.selection_deadline_s)
        return derived_s if self.retry_after_s is None else self.retry_after_s


class LogLevel(enum.Enum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


class CoordinatorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration."""

    task: TaskConfig
    database_url: str = ""  # SQLite in data_dir is enough for a fleet; a postgresql:// URL for who runs one anyway
    data_dir: Path = Path("nightjar-coordinator")  # beside the file, where its owner finds it
    population: Name = "demo"  # one keyboard, one population
    host: str = "127.0.0.1"  # the status page is not for strangers
    port: Port = 8080  # the usual one beside 80 for a service without privileges
    public_reading: bool | None = None  # who reaches a loopback address may look; elsewhere, and behind a proxy, not
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 7  # any fixed number makes runs comparable
    shards: Annotated[int, Meta(ge=1, le=1024)] = 1  # one drains thousands of reports a second
    log: LogLevel = LogLevel.INFO  # about ten lines a round
    broker: BrokerConfig = BrokerConfig()


def disagreements(config: CoordinatorConfig) -> list[str]:
    """Fields that are each possible but not together, and files that are not there."""
    task, broker = config.task, config.broker
    faults = []
    if task.minimum > task.goal:
        faults.append(f"task.minimum: expected at most task.goal ({task.goal}), got {task.minimum}")
    rules = task.rules()
    if rules.selection_window_s > rules.selection_deadline_s:
        faults.append(
            f"task.selection_window_s: expected at most task.selection_deadline_s ({rules.selection_deadline_s:g}), "
            f"got {rules.selection_window_s:g}"
        )
    if task.codec.name not in NAMES:
        faults.append(f"task.codec.name: expected one of {', '.join(NAMES)}, got {task.codec.name!r}")
    if task.downlink.form not in FORMS:
        faults.append(f"task.downlink.form: expected one of {', '.join(FORMS)}, got {task.downlink.form!r}")
    if not task.model.is_dir():
        faults.append(f"task.model: expected the folder of an exported model, there is none at {task.model}")
    if task.evaluation_text is not None and not task.evaluation_text.is_file():
        faults.append(f"task.evaluation_text: expected a corpus file, there is none at {task.evaluation_text}")
    ours = broker.kind is not BrokerKind.EXTERNAL
    if ours and not is_loopback(broker.host) and not (broker.allow_network and broker.password):
        faults.append(
            f"broker.host: {broker.host} is open to a network; set broker.allow_network = true and a broker.password "
            "if that is meant, else use 127.0.0.1"
        )
    if ours and config.port == broker.port and config.host == broker.host:
        faults.append(f"broker.port: {broker.port} is also the port of the status page; give them different ones")
    return faults


def is_loopback(host: str) -> bool:
    """Whether a host name or address stays on this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
