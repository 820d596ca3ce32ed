"""``nightjar-agent train-once``: runs one session on this device's messages, as in a round. Nothing is sent.

It shows how long a session takes on this device and how large a report would be. The conditions apply as in a round:
losing one of them stops the session within one batch. The model is not changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edge_agent.assembly import trainer_for
from edge_agent.commands.conditions import looks
from edge_agent.commands.opened import held_model, opened_database
from edge_agent.config import AgentConfig
from edge_agent.core.training import TrainingStopped
from edge_agent.driver_ports import SESSION_LIMIT_S
from edge_agent.session import Desk, Produced, run_session
from edge_agent.shell.examples import DeviceExamples
from wire.errors import ConfigError
from wire.messages import Assignment, CodecChoice, TrainingPlan


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
        RemoteProtocolError: the model cannot be run.
        UnavailableError: the training process could not be started, or died.
    """
    with opened_database(config) as database:
        model = held_model(config)
        if database is None or model is None:
            msg = f"there is no model in {config.data_dir} yet: run the agent until it has fetched one"
            raise ConfigError(msg)
        watch = None if whatever else _Watch(config)
        if watch is not None and watch.lost():
            return Session(False, watch.lost(), model.manifest.version)
        manifest = model.manifest
        assignment = Assignment(
            task="train-once",
            round=0,
            attempt=1,
            version=manifest.version,
            manifest=model.sha256,
            codec=codec,
            plan=plan,
            report_deadline_s=SESSION_LIMIT_S,
        )
        examples = DeviceExamples(database, config.store.examples)
        desk = Desk(examples, database.residual, trainer_for(config))
        stop: Callable[[], bool] = (lambda: False) if watch is None else (lambda: bool(watch.lost()))
        try:
            outcome = run_session(desk, assignment, model, np.random.default_rng(), stop)
        finally:
            if watch is not None:
                watch.end()
        match outcome:
            case Produced():
                return Session(
                    True,
                    "",
                    manifest.version,
                    outcome.num_examples,
                    outcome.steps,
                    outcome.loss,
                    outcome.seconds,
                    len(outcome.report.frame),
                )
            case TrainingStopped():
                lost = "" if watch is None else watch.lost()
                return Session(False, lost or outcome.detail, manifest.version)


class _Watch:
    """Watches the conditions during the training, as often as the agent does."""

    def __init__(self, config: AgentConfig) -> None:
        self._looks = looks(config)
        self._ended = False
        self._lost = self._look()
        threading.Thread(target=self._watch, name="conditions", daemon=True).start()

    def lost(self) -> str:
        """Why the device may not train; empty if it may."""
        return self._lost

    def end(self) -> None:
        """Stop watching."""
        self._ended = True

    def _look(self) -> str:
        verdict = next(self._looks).verdict
        return "" if verdict.eligible else verdict.reason

    def _watch(self) -> None:
        # Once a condition is lost, the session is over.
        while not (self._lost or self._ended):
            self._lost = self._look()
