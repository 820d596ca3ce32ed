"""Each condition flipped in the middle of training: it stops within one batch and says why; so does the command."""

import queue

import numpy as np
import pytest

from nightjar.edge_agent.commands.conditions import look_once
from nightjar.edge_agent.config import AgentConfig, ConditionSettings
from nightjar.edge_agent.driver import Driver
from nightjar.edge_agent.link.uplink import AgentIdentity
from nightjar.edge_agent.ports import Pace, Ports, SessionDependencies
from nightjar.edge_agent.session.session import in_this_process
from nightjar.edge_agent.shell.device import assembled_device, typing_activity
from nightjar.simulation.rounds.ports import SimulatedSums
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.messages import TrainingPlan
from tests.edge_agent.fakes import FakeProgram, FakeTransport, FakeTrust, Phone, assignment
from tests.edge_agent.losses import LOSSES, lose, whole_device

FLIPPED_IN_BATCH = 3


class ProbedPhone(Phone):
    """A phone whose conditions come from files; in the middle of a batch the world can change, and time passes."""

    def __init__(self, folder, *, memory=0, ignored=()):
        self.tree = whole_device(folder / "root")
        settings = ConditionSettings(
            root=self.tree.root,
            ask_logind=False,
            minimum_free_disk_bytes=0,
            minimum_free_memory_bytes=memory,
            ignored=ignored,
        )
        self.config = AgentConfig(device=DeviceId("phone"), data_dir=folder, conditions=settings)
        self.typing = typing_activity(self.config)
        self.during_batch = lambda _number: None
        super().__init__(folder)

    @property
    def paused(self):
        return self.database.learning_paused()

    @paused.setter
    def paused(self, value):
        self.database.pause_learning(paused=value)

    def start(self):
        super().start()
        phone, device = self, assembled_device(self.config, self.clock, self.typing, self.database.learning_paused, 0.0)
        self.transport, self.batches = FakeTransport(), []

        class Program(FakeProgram):
            def train(self, x, y, learning_rate, clip_norm):
                phone.batches.append(1)
                phone.during_batch(len(phone.batches))
                return super().train(x, y, learning_rate, clip_norm)

        self.driver = Driver(
            AgentIdentity(Population("demo"), DeviceId("phone"), "fake 1.0", 4, 10**9, emulated=True),
            Pace(1.0, 120.0, 585.0, self.config.conditions.policy),
            Ports(
                clock=self.clock,
                jitter=lambda: 0.5,
                random_for=lambda number, attempt: np.random.default_rng([number, attempt]),
                conditions=device.conditions,
                transport=self.transport,
                artifacts=self.artifacts,
                examples=self.database,
                journal=self.database,
                worker=self.worker,
                desk=SessionDependencies(
                    self.database, in_this_process(lambda _model: Program(), self.clock.monotonic_s)
                ),
                trust=FakeTrust(),
                sums=SimulatedSums(0, lambda: bytes(32)),
            ),
            queue.SimpleQueue(),
        )


@pytest.mark.parametrize("what", LOSSES)
def test_it_stops_within_one_batch_and_says_why_and_the_command_says_the_same(tmp_path, what):
    phone = ProbedPhone(tmp_path, memory=10**10 if what == "memory" else 0)
    if what == "memory":
        phone.tree.write("proc/meminfo", "MemAvailable: 20000000 kB")
    phone.check_in()
    phone.hear(assignment(phone.model, plan=TrainingPlan(learning_rate=0.1, clip_norm=1.0, local_epochs=50)))
    phone.work()
    assert phone.state == "training"

    def change(number):
        if number == FLIPPED_IN_BATCH:
            lose(phone.tree, phone, what)
            # The driver's thread goes on while this one trains.
            phone.pass_time(1)

    phone.during_batch = change
    phone.work()
    assert len(phone.batches) == FLIPPED_IN_BATCH
    assert phone.state == "ineligible"
    (dropout,) = phone.transport.of("dropout")
    status = phone.transport.of("status")[-1]
    look = look_once(phone.config)
    assert dropout.cause is look.verdict.cause
    assert dropout.detail == status.reason == look.verdict.reason
    assert (dropout.cause, dropout.detail) == LOSSES[what]
    assert phone.transport.of("report") == []


def test_a_condition_that_the_rules_ignore_stops_nothing(tmp_path):
    phone = ProbedPhone(tmp_path, ignored=("charging",))
    lose(phone.tree, phone, "unplugged")
    phone.check_in()
    phone.hear(assignment(phone.model))
    phone.work()
    phone.during_batch = lambda _number: phone.pass_time(1)
    phone.work()
    assert phone.state == "reporting"
