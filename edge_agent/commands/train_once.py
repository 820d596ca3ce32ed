"""``nightjar-agent train-once``: runs one session on this device's messages, as in a round. Nothing is sent.

It shows how long a session takes on this device and how large a report would be. The conditions apply as in a round:
losing one of them stops the session within one batch. The model is not changed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from nightjar.edge_agent.assembly import trainer_for
from nightjar.edge_agent.commands.conditions import looks
from nightjar.edge_agent.commands.opened import held_model, opened_database, runnable
from nightjar.edge_agent.config import AgentConfig
from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.ports import SESSION_LIMIT_S, SessionDependencies
from nightjar.edge_agent.session.session import run_session
from nightjar.edge_agent.session.task import Produced
from nightjar.edge_agent.shell.examples import CountedMessages, DeviceExamples
from nightjar.wire.errors import ConfigError
from nightjar.wire.messages import Assignment, CodecChoice, TrainingPlan


@dataclass(frozen=True, slots=True)
class Session:
    """Result of the session. Contains numbers only.

    Attributes:
        reason: why it did not complete; empty if it did.
        examples: number of targets in one pass.
        loss: mean loss per target over the last pass, nats.
        report_bytes: size of the report that a round would send.
    """

    trained: bool
    reason: str
    model_version: int
    examples: int = 0
    steps: int = 0
    loss: float | None = None
    seconds: float = 0.0
    report_bytes: int = 0


def train_once(config: AgentConfig, plan: TrainingPlan, codec: CodecChoice, *, whatever: bool) -> Session:
    """Run one training session; ``whatever`` ignores the conditions.

    Raises:
        ConfigError: there is no model or no message here yet.
        RemoteProtocolError: the model cannot be run, or its program may not be.
        UnavailableError: the training process could not be started, or died.
    """
    with opened_database(config) as database:
        model = held_model(config)
        if database is None or model is None:
            msg = f"there is no model in {config.data_dir} yet: run the agent until it has fetched one"
            raise ConfigError(msg)
        model = runnable(config, model)
        version = model.manifest.version
        assignment = Assignment(
            task="train-once",
            round=0,
            attempt=1,
            version=version,
            manifest=model.sha256,
            codec=codec,
            plan=plan,
            report_deadline_s=SESSION_LIMIT_S,
        )
        examples = DeviceExamples(CountedMessages(database.count), config.store.examples)
        desk = SessionDependencies(examples, trainer_for(config))
        with _watched(config, whatever=whatever) as lost:
            if lost():
                return Session(False, lost(), version)
            outcome = run_session(desk, assignment, model, np.random.default_rng(), lambda: bool(lost()))
        match outcome:
            case Produced():
                return Session(
                    True,
                    "",
                    version,
                    outcome.num_examples,
                    outcome.steps,
                    outcome.loss,
                    outcome.seconds,
                    len(outcome.report.frame),
                )
            case TrainingStopped():
                return Session(False, lost() or outcome.detail, version)


@contextlib.contextmanager
def _watched(config: AgentConfig, *, whatever: bool) -> Iterator[Callable[[], str]]:
    """Watch the conditions as often as the agent does; gives why the device may not train, empty while it may."""
    if whatever:
        yield lambda: ""
        return
    series, ended, why = looks(config), threading.Event(), ""

    def look() -> None:
        nonlocal why
        verdict = next(series).verdict
        why = "" if verdict.eligible else verdict.reason

    def watch() -> None:
        while not (why or ended.is_set()):  # once a condition is lost, the session is over
            look()

    look()
    threading.Thread(target=watch, name="conditions", daemon=True).start()
    try:
        yield lambda: why
    finally:
        ended.set()
