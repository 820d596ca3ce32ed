"""The observer must be able to see what it says it never saw: each test here breaks one thing on purpose."""

from collections import deque

import msgspec
import numpy as np
from msgspec.structs import replace

import nightjar.simulation.rounds.coordinator as host
from nightjar.coordinator.engine.aggregation import do_job
from nightjar.coordinator.learning import fedavg
from nightjar.coordinator.records.jobs import AggregationJob
from nightjar.coordinator.rounds.eligibility import Variant
from nightjar.coordinator.rounds.seats import Seat
from nightjar.simulation.rounds.model import LAYOUT
from nightjar.simulation.rounds.storage import MemoryView
from nightjar.simulation.rounds.world import POPULATION, World
from nightjar.wire import messages, topics
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Assignment, CodecChoice, TrainingPlan, Verdict
from nightjar.wire.parameters import weights_from_bytes, weights_to_bytes

SOUND = (0, 0, 0)


def seen(world: World) -> tuple[int, int, int]:
    """Reports lost, reports counted twice, commits that are not the mean."""
    world.run()
    observer = world.observer
    return len(observer.lost), observer.counted_twice, len(observer.wrong_means)


def change_reports(world: World, change) -> None:
    """Let the coordinator's database find other reports than it was given."""
    view = world.coordinator.repository.view
    found = view.reports
    view.reports = lambda number: change(found(number))


def change_averaging(monkeypatch, change) -> None:
    """Let the worker average something else than it was asked to; whoever asked does not know."""

    def work(job, *rest):
        return do_job(change(job) if isinstance(job, AggregationJob) else job, *rest)

    monkeypatch.setattr(host, "do_job", work)


def test_an_untouched_world_is_sound(make_world):
    assert seen(make_world()) == SOUND


def test_a_coordinator_that_loses_an_accepted_report_is_caught(make_world):
    world = make_world()
    change_reports(world, lambda reports: reports[1:])
    assert seen(world) == (3, 0, 0)


def test_a_coordinator_that_counts_a_report_twice_is_caught(make_world, monkeypatch):
    world = make_world()
    change_reports(world, lambda reports: [*reports, *reports[:1]])
    assert seen(world)[1] == 0, "the averaging refuses a device that comes twice, so nothing was counted"
    world = make_world()
    change_reports(world, lambda reports: [*reports, *reports[:1]])
    change_averaging(monkeypatch, lambda job: msgspec.structs.replace(job, reports=job.reports[:-1]))  # it looks away
    assert seen(world)[:2] == (0, 3)


def test_a_coordinator_that_lets_a_device_work_for_two_variants_is_caught(make_world):
    world = make_world(devices=300, rounds=24, tasks=4)
    world._others = [replace(each, variant=Variant()) for each in world._others]  # nobody divides the devices
    world.run()
    assert world.observer.double_booked


def test_a_coordinator_that_lets_a_device_work_in_two_rounds_at_once_is_caught(make_world):
    world = make_world(tasks=2)
    world.run()
    assert world.observer.double_booked == []
    [first, second] = world.coordinator.repository.view.open_rounds()
    assert first.task != second.task
    device = DeviceId("phone-000001")
    both = [replace(state, seats={device: Seat()}) for state in (first, second)]
    world.coordinator.repository.view.open_rounds = lambda: both
    asked = Assignment(
        task=second.task,
        round=second.number,
        attempt=1,
        version=0,
        manifest="a" * 64,
        codec=CodecChoice(name="dense-f16"),
        plan=TrainingPlan(learning_rate=1, clip_norm=1),
        report_deadline_s=1,
    )
    world.observer.published(topics.down(POPULATION, device, "assignment"), messages.encode(asked))
    assert world.observer.double_booked == [(second.number, device, 1)]


def test_a_coordinator_that_accepts_what_it_does_not_keep_is_caught(make_world):
    world = make_world()
    send = world.broker.from_coordinator

    def lie(topic: str, payload: bytes, *, retain: bool) -> None:
        if topic.endswith("/receipt"):
            receipt = messages.decode("receipt", payload)
            if receipt.verdict is Verdict.LATE:
                payload = messages.encode(msgspec.structs.replace(receipt, verdict=Verdict.ACCEPTED))
        send(topic, payload, retain=retain)

    world.broker.from_coordinator = lie
    lost, *others = seen(world)
    assert lost > 0
    assert others == [0, 0]


def test_a_mean_that_leaves_a_report_out_is_caught(make_world, monkeypatch):
    change_averaging(monkeypatch, lambda job: msgspec.structs.replace(job, reports=job.reports[1:]))
    assert seen(make_world()) == (0, 0, 3)


def test_a_mean_with_a_wrong_weight_is_caught(make_world, monkeypatch):
    monkeypatch.setattr(fedavg, "weight_of", lambda num_examples, _cap: float(num_examples))
    assert seen(make_world()) == (0, 0, 2), "in one round of three the two phones have as much text"


def test_a_mean_of_updates_that_are_not_clipped_is_caught(make_world, monkeypatch):
    monkeypatch.setattr(fedavg, "norm_of", lambda _update: 0.0)
    assert seen(make_world()) == (0, 0, 3)


def test_a_mean_with_the_report_of_another_is_caught(make_world, monkeypatch):
    original = MemoryView.frame

    def of_the_first(view: MemoryView, number: int, _device: str, _attempt: int) -> bytes:
        return original(view, number, *min(view._frames[number]))

    monkeypatch.setattr(MemoryView, "frame", of_the_first)
    assert seen(make_world()) == (0, 0, 3)


def test_weights_that_differ_in_the_last_bit_are_caught(make_world, monkeypatch):
    def work(job, artifacts, *rest):
        done = do_job(job, artifacts, *rest)
        weights = weights_from_bytes(artifacts.get(done.weights), LAYOUT).copy()
        weights[0] = np.nextafter(weights[0], np.float32(np.inf))
        return msgspec.structs.replace(done, weights=artifacts.put(weights_to_bytes(weights)))

    monkeypatch.setattr(host, "do_job", work)
    assert seen(make_world()) == (0, 0, 3)


def test_a_disk_that_only_says_that_it_stored_is_caught(make_world):
    world = make_world(rounds=40, faults="coordinator-restart:reporting", severity=100)
    host, view = world.coordinator, world.coordinator.repository.view
    commit, kill = view.commit, host.kill
    unwritten = deque(maxlen=20)

    def pretend() -> None:
        unwritten.append(list(view._undo))
        commit()

    def lose_what_was_not_written() -> None:
        view.roll_back()
        view._undo[:] = [step for steps in unwritten for step in steps]
        view.roll_back()
        kill()

    view.commit, host.kill = pretend, lose_what_was_not_written
    assert seen(world)[0] > 0
