"""What a person may configure: one frozen type, with the reason beside each default.

Reading and checking the file is :mod:`coordinator.config_file`'s task. ``coordinator/example.toml`` shows every field.
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from coordinator.core.admission import Eligibility, Variant
from coordinator.core.lease import SHARE_WINDOW
from coordinator.core.optimizers import OptimizerChoice, OptimizerName
from coordinator.core.rollout import TrialPolicy
from coordinator.core.rules import SHORTEST_RETRY_SHARE, RoundRules, rules_for
from coordinator.core.schedule import Schedule
from coordinator.core.task import StopRule
from coordinator.publishing import F32, FORMS
from models.folder import HELD_OUT
from models.manifest import Artifact
from wire.addresses import is_loopback
from wire.codec import MASKED, NAMES
from wire.identifiers import Sha256
from wire.limits import Limits, outside
from wire.messages import CodecChoice, TrainingPlan, Work

Port = Annotated[int, Meta(ge=1, le=65535)]
Count = Annotated[int, Meta(ge=1, le=2**31)]
Seconds = Annotated[float, Meta(ge=0, le=30 * 86400)]
KEEP_SHARE = 0.5
"""A device that must stop after this share of its steps reports what it has; less is worth a dropout."""
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


class Transport(enum.Enum):
    """Who encrypts what goes between devices and us."""

    TLS = "tls"
    """We do, and devices show certificates (docs/enrolment.md)."""
    PLAIN = "plain"
    """Nobody; only on the loopback address."""
    PROXIED = "proxied"
    """A proxy and a broker of yours; we speak plain text to them, on whatever address."""


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[broker]``: where messages go through."""

    kind: BrokerKind = BrokerKind.AUTO  # works on a fresh machine, and takes the better broker where there is one
    host: str = "127.0.0.1"  # nothing is open to a network unless somebody says so
    port: Port = 1883  # registered for MQTT
    username: str = "nightjar"  # the embedded broker keeps sessions only of clients that have a name
    password: str = ""  # empty: any name may connect in plain text on loopback; with TLS a fresh one at each start
    allow_network: bool = False  # a broker of ours on another address than loopback must be meant
    device_port: Port | None = None  # of an external broker whose port for devices is another than ours
    reload_command: tuple[str, ...] = ()  # an external broker that is not told learns of revocations when it restarts


class CodecConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.codec]``: how updates are compressed."""

    name: str = "topk-4"  # 550 times smaller than dense at the density below
    density: Annotated[float, Meta(gt=0, le=1)] = 0.01  # measured: most of the dense progress for 1/100 of the values
    error_feedback: bool | None = None  # empty: on for top-k, where it always helped; off elsewhere (ADR 7)

    def choice(self, mask: Artifact | None = None) -> CodecChoice:
        """As it travels in an assignment; ``mask`` counts for the codecs that need one."""
        return CodecChoice(
            name=self.name,
            density=self.density,
            error_feedback=self.name.startswith("topk") if self.error_feedback is None else self.error_feedback,
            mask=Sha256(mask.sha256) if mask is not None and self.name in MASKED else None,
        )


class PlanConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.plan]``: what a device does with its examples."""

    learning_rate: Annotated[float, Meta(gt=0, le=1000)] = 1.0  # the largest that did no harm from a warm start
    clip_norm: Annotated[float, Meta(gt=0, le=1e9)] = 1.0  # bites rarely, and keeps large rates from NaN
    local_epochs: Annotated[int, Meta(ge=1, le=1000)] = 1  # more epochs drift away from the other devices
    max_steps: Annotated[int, Meta(ge=1, le=10**6)] = 1000  # an end even for a device with very much text
    proximal: Annotated[float, Meta(ge=0, le=1000)] = 0.0  # FedProx, for many local epochs; one does not drift far
    evaluation_share: Annotated[float, Meta(ge=0, le=0.5)] = 0.1  # enough to see on devices whether a round helped

    def plan(self) -> TrainingPlan:
        """As it travels in an assignment."""
        return TrainingPlan(
            learning_rate=self.learning_rate,
            clip_norm=self.clip_norm,
            local_epochs=self.local_epochs,
            max_steps=self.max_steps,
            proximal=self.proximal,
            evaluation_share=self.evaluation_share,
            keep_share=KEEP_SHARE,
        )


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.server]``: how the mean update changes the model.

    Attributes:
        optimizer: fedavg, fedavgm, fedadagrad, fedadam or fedyogi.
        learning_rate: empty takes 1 for fedavg and fedavgm, 0.003 for the adaptive ones.
        adaptivity: tau of the adaptive ones: below it a coordinate's step shrinks with its mean update.
    """

    optimizer: OptimizerName = OptimizerName.FEDAVG  # from a warm start momentum did harm in few rounds
    learning_rate: Annotated[float, Meta(gt=0, le=1000)] | None = None  # 1 is McMahan's FedAvg; 0.003 never did harm
    adaptivity: Annotated[float, Meta(gt=0, le=1)] = 1e-4  # as in the runs that were measured

    def choice(self) -> OptimizerChoice:
        """As the worker gets it."""
        plain = self.optimizer in {OptimizerName.FEDAVG, OptimizerName.FEDAVGM}
        usual = 1.0 if plain else 0.003
        return OptimizerChoice(
            name=self.optimizer,
            learning_rate=usual if self.learning_rate is None else self.learning_rate,
            adaptivity=self.adaptivity,
        )


class BaselineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.baseline]``: a recall that was measured elsewhere; the pages draw it as a level line.

    What ``nightjar-coordinator model baseline`` measures replaces it.

    It is a simple model's, such as a trigram's.
    """

    label: Annotated[str, Meta(min_length=1, max_length=60)]
    top1: Annotated[float, Meta(ge=0, le=1)]
    top3: Annotated[float, Meta(ge=0, le=1)]


class SourceConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.source]``: which version a task that was made later begins with, or tries. The file's own has its model.

    Attributes:
        task: the newest version of that task; empty for the file's task. Trying follows it from round to round.
        version: this version and no other.
    """

    task: Annotated[str, Meta(max_length=64)] = ""  # the one that goes out to the devices
    version: Annotated[int, Meta(ge=0, lt=2**53)] | None = None  # the newest


class TaskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[task]``: what a task does, and how its rounds go; two numbers say how long a round waits, the rest follows.

    Attributes:
        name: of the task; also what ties the file's task to what it has learned so far.
        kind: train, or evaluate.
        selection_deadline_s: how long a round waits for phones.
        report_deadline_s: how long a phone may take to train and to send.
        selection_window_s: shortest selection; derived, a 60th of selection_deadline_s.
        minimum_separation: a phone whose report counts in a round may take part again so many rounds later.
        retry_after_s: shortest wait of a phone that is sent away; derived, a 15th of selection_deadline_s.
        downlink: how new weights are published: f32, or topk-8, which catches up later, for cohorts of fifty and more.
        target_top1: recall on the held-out text that ends the task.
        no_progress_rounds: committed rounds without a better recall after which it is given up; 0 never.
    """

    name: Name = "keyboard"  # the demo
    kind: Work = Work.TRAIN  # what federated learning is for
    rounds: Annotated[int, Meta(ge=0, le=2**31)] = 0  # endless: keyboards never stop changing
    goal: Count = 20  # twice the smallest mean that says little of one device; a household has fewer, a fleet hundreds
    minimum: Count = 10  # the smallest cohort that devices take part in unless their owners say otherwise
    over_selection: Annotated[float, Meta(ge=1, le=10)] = 1.3  # Bonawitz et al.: 6 to 10 % drop out, and some are slow
    selection_deadline_s: Annotated[float, Meta(ge=0.1, le=86400)] = 60.0  # a person who waits sees why within a minute
    report_deadline_s: Annotated[float, Meta(ge=1, le=30 * 86400)] = 600.0  # Android ends a session after 585 s
    selection_window_s: Seconds | None = None  # empty: derived; for tests and demos that run faster than life
    minimum_examples: Annotated[int, Meta(ge=0, le=2**31)] = 1  # nothing to learn from none
    minimum_separation: Annotated[int, Meta(ge=1, le=SHARE_WINDOW)] = 1  # a household has few phones; a fleet says 10
    retry_after_s: Annotated[float, Meta(ge=0.1, le=86400)] | None = None  # empty: derived; likewise
    codec: CodecConfig = CodecConfig()
    plan: PlanConfig = PlanConfig()
    server: ServerConfig = ServerConfig()
    downlink: str = F32  # nothing is lost, and what a small cohort changed is short already
    schedule: Schedule = Schedule()
    eligibility: Eligibility = Eligibility()
    target_top1: Annotated[float, Meta(gt=0, le=1)] | None = None  # nobody knows beforehand what can be reached
    no_progress_rounds: Annotated[int, Meta(ge=0, le=2**31)] = 0  # people's words change: a standstill may end
    variant: Variant = Variant()
    source: SourceConfig = SourceConfig()

    def rules(self) -> RoundRules:
        """What a round of this task is opened with."""
        return rules_for(
            goal=self.goal,
            minimum=self.minimum,
            over_selection=self.over_selection,
            selection_deadline_s=self.selection_deadline_s,
            report_deadline_s=self.report_deadline_s,
            selection_window_s=self.selection_window_s,
        )

    def stop_rule(self) -> StopRule:
        """When the task has done enough."""
        return StopRule(
            rounds=self.rounds,
            target_top1=self.target_top1,
            no_progress_rounds=self.no_progress_rounds,
        )

    @property
    def shortest_retry_s(self) -> float:
        """No device is told to come back sooner."""
        derived_s = max(MIN_RETRY_S, SHORTEST_RETRY_SHARE * self.selection_deadline_s)
        return derived_s if self.retry_after_s is None else self.retry_after_s


class TaskConfig(TaskSettings, frozen=True, kw_only=True):
    """``[task]`` of the file: the first task, the model that it begins with, and what every version is measured by."""

    model: Path  # folder with program.tflite, weights.bin, vocabulary.txt and manifest.json
    evaluation_text: Path | None = None  # the text that came with the model; a text like the devices' own is better
    baseline: BaselineConfig | None = None

    @property
    def measured_in_public(self) -> bool:
        """Whether versions are measured on the public text that came with the model."""
        return self.evaluation_text == self.model / HELD_OUT

    def settings(self) -> TaskSettings:
        """The part of it that every task has."""
        return TaskSettings(**{name: getattr(self, name) for name in TaskSettings.__struct_fields__})


class EnrolmentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[enrolment]``: certificates of devices and servers, with ``transport = "tls"``.

    Attributes:
        names: DNS names and addresses in our own certificate, beside this machine's.
        device_days: how long a device's certificate lasts; it is renewed after two thirds.
        signer: command that answers as 'authority serve' does; empty runs that as a child of ours.
    """

    names: tuple[Annotated[str, Meta(pattern=r"^[A-Za-z0-9.:-]{1,253}$(?!\n)")], ...] = ()  # only browsers look at them
    device_days: Annotated[float, Meta(gt=0, le=825)] = 90.0  # a stolen card is worth something for so long at most
    signer: tuple[str, ...] = ()  # a household has one machine


class LogLevel(enum.Enum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


class LogFormat(enum.Enum):
    """How a line of the log looks."""

    LOGFMT = "logfmt"
    """``event=round_opened round=3``."""
    JSON = "json"


class CoordinatorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration."""

    task: TaskConfig
    database_url: str = ""  # SQLite in data_dir is enough for a fleet; a postgresql:// URL for who runs one anyway
    data_dir: Path = Path("nightjar-coordinator")  # beside the file, where its owner finds it
    population: Name = "demo"  # one keyboard, one population
    host: str = "127.0.0.1"  # the status page is not for strangers
    port: Port = 8080  # the usual one beside 80 for a service without privileges
    page_port: Annotated[int, Meta(ge=0, le=65535)] = 0  # unencrypted pages only for whoever asks for them
    public_reading: bool | None = None  # who reaches a loopback address may look; elsewhere, and behind a proxy, not
    trusted_proxy: str = ""  # whoever claims to ask for somebody else is not believed
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 7  # any fixed number makes runs comparable
    shards: Annotated[int, Meta(ge=1, le=1024)] = 1  # one drains thousands of reports a second
    log: LogLevel = LogLevel.INFO  # about ten lines a round
    log_format: LogFormat = LogFormat.LOGFMT  # people, grep and journald read it; a collector may want JSON
    transport: Transport = Transport.TLS  # nobody finds out later that everything could be read on its way
    broker: BrokerConfig = BrokerConfig()
    rollout: TrialPolicy = TrialPolicy()
    enrolment: EnrolmentConfig = EnrolmentConfig()
    limits: Limits = Limits()

    @property
    def proxied(self) -> bool:
        """Whether a proxy stands between us and those who ask."""
        return bool(self.trusted_proxy) or self.transport is Transport.PROXIED

    @property
    def tls(self) -> bool:
        """Whether we encrypt, and devices show certificates."""
        return self.transport is Transport.TLS

    @property
    def url(self) -> str:
        """Of our HTTP server, as this machine reaches it."""
        here = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)  # noqa: S104 - compared only
        return f"{'https' if self.tls else 'http'}://{here}:{self.port}"

    @property
    def page_url(self) -> str:
        """Of the pages, for a browser on this machine."""
        return f"http://127.0.0.1:{self.page_port}" if self.page_port else self.url

    @property
    def stays_here(self) -> bool:
        """Whether all that is said stays on this machine."""
        return is_loopback(self.host) and is_loopback(self.broker.host)


def disagreements(config: CoordinatorConfig) -> list[str]:
    """Fields that are each possible but not together, and files that are not there."""
    task, broker = config.task, config.broker
    measured = task.evaluation_text is not None
    faults = [f"task.{fault}" for fault in task_faults(task, config.limits, measured=measured)]
    if task.kind is not Work.TRAIN:
        faults.append("task.kind: expected 'train' of the first task, which makes the versions; others are made later")
    if task.source != SourceConfig():
        faults.append("task.source: the first task begins with task.model; leave it out")
    if not task.model.is_dir():
        faults.append(f"task.model: expected the folder of an exported model, there is none at {task.model}")
    if task.evaluation_text is not None and not task.evaluation_text.is_file():
        faults.append(f"task.evaluation_text: expected a corpus file, there is none at {task.evaluation_text}")
    ours = broker.kind is not BrokerKind.EXTERNAL
    if ours and not is_loopback(broker.host) and not (broker.allow_network and (config.tls or broker.password)):
        faults.append(
            f"broker.host: {broker.host} is open to a network; set broker.allow_network = true "
            "if that is meant, else use 127.0.0.1"
        )
    if config.transport is Transport.PLAIN and not config.stays_here:
        faults.append(
            "transport: plain text stays on the loopback address; set transport = 'tls' and enrol the devices "
            "(docs/enrolment.md), or 'proxied' if a proxy of yours encrypts, or use 127.0.0.1 for host and broker.host"
        )
    if config.page_port and not config.tls:
        faults.append(f"page_port: the pages are unencrypted on port {config.port} already; leave it out")
    if config.page_port and config.page_port in {config.port, broker.port if ours else 0}:
        faults.append(f"page_port: {config.page_port} is the port of something else; give another one")
    if ours and config.port == broker.port and config.host == broker.host:
        faults.append(f"broker.port: {broker.port} is also the port of the status page; give them different ones")
    return faults


def beyond_limits(task: TaskSettings, limits: Limits) -> list[str]:
    """What of a task ``[limits]`` of the configuration do not allow."""
    return outside(limits, task.minimum, task.codec.choice(), task.plan.max_steps)


def task_faults(task: TaskSettings, limits: Limits, *, measured: bool) -> list[str]:
    """Settings of a task that are each possible but not together, or not allowed.

    Args:
        task: any task's.
        limits: of the configuration.
        measured: whether versions are measured on held-out text.
    """
    faults = beyond_limits(task, limits)
    if task.minimum > task.goal:
        faults.append(f"minimum: expected at most goal ({task.goal}), got {task.minimum}")
    rules = task.rules()
    if rules.selection_window_s > rules.selection_deadline_s:
        faults.append(
            f"selection_window_s: expected at most selection_deadline_s ({rules.selection_deadline_s:g}), "
            f"got {rules.selection_window_s:g}"
        )
    if task.codec.name not in NAMES:
        faults.append(f"codec.name: expected one of {', '.join(NAMES)}, got {task.codec.name!r}")
    if task.downlink not in FORMS:
        faults.append(f"downlink: expected one of {', '.join(FORMS)}, got {task.downlink!r}")
    watches = task.target_top1 is not None or task.no_progress_rounds > 0
    if watches and (task.kind is not Work.TRAIN or not measured):
        faults.append(
            "target_top1, no_progress_rounds: a recall can end only a training task, and only where a held-out text "
            "(evaluation_text) measures it"
        )
    if task.kind is Work.EVALUATE and not task.plan.evaluation_share:
        faults.append("plan.evaluation_share: expected more than 0, because an evaluation tries nothing else")
    return faults
