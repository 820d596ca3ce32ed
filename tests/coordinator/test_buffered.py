"""Buffered rounds in the whole coordinator: seats that outlive their round, kills, pauses, trials, and the weights."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.coordinator.records.inbox import JobEnded, Operated
from nightjar.coordinator.records.jobs import JobFailed
from nightjar.coordinator.rounds.round import TERMINAL, Phase
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.storage.fencing import LeadLostError
from nightjar.coordinator.tasks.operations import PauseTask, ResumeTask, RollBack, StopTask
from nightjar.coordinator.tasks.schedule import Schedule
from nightjar.coordinator.tasks.settings import Mode, Privacy, TaskSettings
from nightjar.coordinator.tasks.validation import task_faults
from nightjar.coordinator.versions.rollout import Stage
from nightjar.coordinator.versions.trial_policy import TrialPolicy
from nightjar.models.manifest import Manifest
from nightjar.wire import frame
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.frame import LocalEvaluation
from nightjar.wire.limits import NONE as NO_LIMITS
from nightjar.wire.messages import Assignment, CheckIn, Missing, Query, Receipt, Rejection, Verdict, Work
from nightjar.wire.parameters import weights_from_bytes
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import LAYOUT, write_model

pytestmark = pytest.mark.slow

A, B, C, D = DEVICES = "abcd"
STEPS = dict(zip(DEVICES, (0.01, 0.01, 0.01, 0.01), strict=True))


@pytest.fixture
def make_world(worlds_of):
    return lambda **task: worlds_of(**{"mode": Mode.BUFFERED, "concurrency": 3, "max_staleness": 2} | task)


def report_of(world: World, device: str, assignment: Assignment | None = None) -> bytes:
    asked = assignment or world.assignment(device)
    return report_frame(asked, np.full(LAYOUT.size, STEPS[device], np.float32), LAYOUT, num_examples=3)


def report(world: World, device: str, assignment: Assignment | None = None) -> Receipt:
    world.receive(device, "report", report_of(world, device, assignment))
    return world.transport.to(device, Receipt)[-1]


def operate(world: World, operation) -> None:
    answers = []
    world.driver.handle(Operated(operation, "anna", answers.append))
    assert answers == [True]


def weights(world: World, version: int) -> np.ndarray:
    manifest = Manifest.decode(world.artifacts.get(world.tables.versions[version].manifest))
    return weights_from_bytes(world.artifacts.get(manifest.weights.sha256), LAYOUT)


def commit(world: World, *devices: str) -> None:
    world.check_in(*devices)
    for device in devices:
        assert report(world, device).verdict is Verdict.ACCEPTED
    world.work()


def test_a_device_selected_in_one_round_reports_into_a_later_one_and_weighs_less(make_world):
    world = make_world()
    world.check_in(C)
    commit(world, A, B)
    clipped = world.tables.versions[1].clip_norm / LAYOUT.size**0.5
    assert report(world, C).round == 1
    commit(world, A)
    tables = world.tables
    assert [key for key in tables.reports if key[0] == 2] == [(2, A, 1), (2, C, 1)]
    assert tables.rounds[2].version == 2
    shrunk = (1 + 2**-0.5) / 2  # the factor of the late update is not in the divisor
    np.testing.assert_allclose(weights(world, 2) - weights(world, 1), shrunk * clipped, rtol=1e-3)
    assert tables.frames == {}
    assert report(world, C).verdict is Verdict.DUPLICATE, "round 1 leads to round 2, which has ended, too"


def test_a_report_of_too_old_a_version_is_answered_late_with_the_reason_and_counted(make_world):
    world = make_world(max_staleness=1)
    world.check_in(C)
    commit(world, A, B)
    commit(world, A, B)
    late = report(world, C)
    assert (late.verdict, late.code, late.round) == (Verdict.LATE, "stale", 1)
    assert "version 0, is more than 1 versions old" in late.detail
    assert world.counters["reports_late"] == world.counters["reports_stale"] == 1
    world.check_in(C)
    assert world.assignment(C).version == 2


def test_the_assignment_of_a_seat_is_the_same_after_versions_and_a_restart(make_world):
    world = make_world()
    world.check_in(C)
    first = world.assignment(C)
    commit(world, A, B)
    world.start()
    world.tick(30.0)
    world.check_in(C)
    again = world.assignment(C)
    assert (again.round, again.attempt, again.version, again.manifest) == (1, 1, 0, first.manifest)
    assert again.report_deadline_s == pytest.approx(70.0)


def test_chunks_of_a_report_that_came_before_and_after_a_version_are_joined(tmp_path):
    manifest = write_model(tmp_path, tuple(f"w{number}" for number in range(12_000)))
    world, layout = World(manifest, tmp_path, mode=Mode.BUFFERED, concurrency=3), manifest.layout
    values = np.full(layout.size, 0.01, np.float32)
    world.check_in(A, B, C)
    chunks = {}
    for device in (A, B, C):
        asked = world.assignment(device)
        chunks[device] = frame.publishes(report_frame(asked, values, layout), asked.round, asked.attempt)
    first, *rest = chunks[C]
    world.receive(C, "report", first)
    for device in (A, B):
        for chunk in chunks[device]:
            world.receive(device, "report", chunk)
    world.work()
    world.say(C, Query(round=1, attempt=1, chunks=len(chunks[C])))
    assert world.transport.to(C, Missing)[-1].chunks == tuple(range(1, len(chunks[C])))
    for chunk in rest:
        world.receive(C, "report", chunk)
    assert world.transport.to(C, Receipt)[-1].verdict is Verdict.ACCEPTED
    assert world.tables.chunks == {}


def test_a_pause_lets_devices_at_work_report_and_resuming_goes_on(make_world):
    world = make_world(minimum=1)
    world.check_in(A, B)
    operate(world, PauseTask("keyboard", "maintenance"))
    world.check_in(C)
    assert world.transport.to(C, Rejection)
    assert report(world, A).verdict is Verdict.ACCEPTED
    assert report(world, B).verdict is Verdict.ACCEPTED
    world.work()
    assert world.tables.rounds[1].phase is Phase.COMMITTED
    assert len(world.tables.rounds) == 1
    operate(world, ResumeTask("keyboard"))
    commit(world, A, B)


def test_a_pause_while_averaging_loses_no_early_report_and_no_seat(make_world):
    world = make_world(minimum=1)
    world.check_in(A, B, C)
    report(world, A)
    report(world, B)
    world.check_in(D)
    operate(world, PauseTask("keyboard", "maintenance"))
    assert report(world, C).verdict is Verdict.ACCEPTED
    world.work()
    assert report(world, D).verdict is Verdict.ACCEPTED
    world.work()
    tables = world.tables
    assert [(state.phase, state.version) for state in tables.rounds.values()] == [
        (Phase.COMMITTED, 1),
        (Phase.COMMITTED, 2),
    ]
    assert tables.rounds[2].devices(SeatState.REPORTED) == [C, D]


def test_a_finished_task_uses_no_early_report_and_counts_it(make_world):
    world = make_world(rounds=1)
    world.check_in(A, B, C)
    report(world, A)
    report(world, B)
    assert report(world, C).verdict is Verdict.ACCEPTED
    world.work()
    assert world.counters["reports_unused"] == 1
    assert world.tables.frames == {}
    assert report(world, C).verdict is Verdict.DUPLICATE


def test_a_stopped_task_ends_its_round_and_answers_devices_at_work_late(make_world):
    world = make_world()
    world.check_in(A, B, C)
    report(world, A)
    report(world, B)
    operate(world, StopTask("keyboard", "enough"))
    world.work()
    assert report(world, C).verdict is Verdict.LATE
    assert all(state.phase in TERMINAL for state in world.tables.rounds.values())


def test_a_trial_is_a_synchronous_round_and_early_reports_wait_for_its_end(make_world):
    world = make_world(rollout=TrialPolicy(share=0.99, devices=1), concurrency=4)
    world.check_in(A, B, C, D)
    report(world, A)
    report(world, B)
    assert report(world, C).verdict is Verdict.ACCEPTED
    world.work()
    trial = world.tables.rounds[2]
    assert (trial.trial, trial.rules.concurrency, trial.phase) == (True, 0, Phase.SELECTION)
    assert report(world, D).verdict is Verdict.LATE
    assert report(world, C).verdict is Verdict.DUPLICATE
    world.start()
    world.listen()
    kinds = (Work.TRAIN.value, Work.EVALUATE.value)
    world.say(A, CheckIn(agent_version="0.1.0", runtime="none", examples=10, kinds=kinds, codecs=to_name()))
    world.tick(61.0)
    asked = world.assignment(A)
    assert asked.work is Work.EVALUATE
    figures = frame.Report(
        round=2,
        attempt=1,
        codec=frame.NO_UPDATE,
        layout=LAYOUT.fingerprint,
        version=1,
        num_examples=0,
        steps=0,
        loss=0.0,
        seconds=0.1,
        payload=b"",
        evaluation=LocalEvaluation(
            counted=50, top1_before=10, top3_before=20, loss_before=3.0, top1_after=10, top3_after=20, loss_after=3.0
        ),
    )
    world.receive(A, "report", frame.encode_report(figures))
    world.work()
    third = world.tables.rounds[3]
    assert (third.base_version, third.devices(SeatState.REPORTED)) == (1, [C])
    assert list(world.tables.frames) == [(3, C, 1)]


def test_what_was_trained_from_a_version_that_was_rolled_back_is_not_used(make_world):
    world = make_world()
    commit(world, A, B)
    world.check_in(A, B)
    report(world, A)
    report(world, B)
    world.check_in(C, D)
    assert report(world, C).verdict is Verdict.ACCEPTED
    operate(world, RollBack("words are missing"))
    world.work()
    tables = world.tables
    assert [tables.versions[number].rollout.stage for number in range(3)] == [
        Stage.CURRENT,
        Stage.ROLLED_BACK,
        Stage.REFUSED,
    ]
    assert (tables.rounds[3].base_version, tables.rounds[3].seats) == (0, {})
    assert world.counters["reports_unused"] == 1
    assert (tables.frames, tables.chunks) == ({}, {})
    assert (report(world, C).verdict, report(world, D).verdict) == (Verdict.DUPLICATE, Verdict.LATE)
    world.check_in(D)
    assert world.assignment(D).version == 0


def test_outside_its_hours_a_buffer_gives_no_seats(make_world):
    world = make_world(schedule=Schedule(from_hour=13, to_hour=14), minimum=1)
    world.clock.time_s = 86400.0 * 20000 + 13.9 * 3600
    world.tick()
    world.listen()
    world.check_in(A)
    world.tick(20 * 60)
    world.check_in(B)
    assert world.transport.to(B, Rejection)
    assert not world.transport.to(B, Assignment)


# Devices a and b make version 1 while c is at work, d reports early, and c reports into the second buffer.
STORY = [
    lambda world: world.check_in(A, B, C),
    lambda world: report(world, A),
    lambda world: report(world, B),
    lambda world: world.check_in(D),
    lambda world: report(world, D),
    lambda world: world.work(),
    lambda world: report(world, C),
    lambda world: world.work(),
    lambda world: report(world, C),
    lambda world: report(world, D),
]


def tell(world: World, begin: Callable[[World, int], None]) -> dict:
    for number, happens in enumerate(STORY):
        begin(world, number)
        happens(world)
    world.start()
    tables = world.tables
    return {
        "rounds": {
            number: (state.phase, {name: seat.state for name, seat in state.seats.items()}, state.version)
            for number, state in tables.rounds.items()
        },
        "reports": sorted(tables.reports),
        "frames": len(tables.frames),
        "weights": [weights(world, version).tobytes() for version in tables.versions],
        "answers": [world.transport.to(name, Receipt)[-1].verdict for name in DEVICES],
    }


def test_killed_before_each_step_the_versions_and_answers_are_the_same(make_world):
    expected = tell(make_world(), lambda *_: None)
    assert expected["reports"] == [(1, A, 1), (1, B, 1), (2, C, 1), (2, D, 1)]
    assert len(expected["weights"]) == 3
    for killed_before in range(len(STORY)):
        killed = tell(make_world(), lambda world, number, at=killed_before: world.start() if number == at else None)
        assert killed == expected, f"killed before step {killed_before}"


@pytest.mark.parametrize("worlds_of", [pytest.param("postgresql", marks=pytest.mark.postgresql)], indirect=True)
def test_a_former_leader_writes_and_says_nothing_of_a_buffer_and_its_successor_goes_on(make_world):
    expected = tell(make_world(), lambda *_: None)
    for taken_over_before in range(len(STORY)):

        def take_over(world: World, number: int, at: int = taken_over_before) -> None:
            if number == at:
                _end_the_term(world, STORY[number])

        assert tell(make_world(), take_over) == expected, f"taken over before step {taken_over_before}"


def _end_the_term(world: World, happens: Callable[[World], object]) -> None:
    """Let another host lead; what then happens to the former leader, which does not know of it, changes nothing."""
    former, jobs = world.driver, list(world.worker.jobs)
    world.start()
    successor, given, said = world.driver, list(world.worker.jobs), len(world.transport.sent)
    before = world.tables.reports, world.tables.rounds, world.tables.effects
    world.driver, world.worker.jobs[:] = former, jobs
    with pytest.raises(LeadLostError):
        happens(world)
    assert (world.tables.reports, world.tables.rounds, world.tables.effects) == before
    assert len(world.transport.sent) == said
    world.driver, world.worker.jobs[:] = successor, given


HAPPENINGS = st.one_of(
    st.tuples(st.just("check in"), st.sampled_from(DEVICES)),
    st.tuples(st.just("report"), st.sampled_from(DEVICES)),
    st.tuples(st.just("report all ever"), st.sampled_from(DEVICES)),
    st.tuples(st.just("pass"), st.sampled_from([0.3, 15.0, 120.0])),
    st.tuples(st.just("work")),
    st.tuples(st.just("work")),
    st.tuples(st.just("fail")),
    st.tuples(st.just("pause")),
    st.tuples(st.just("kill")),
)


@given(st.lists(HAPPENINGS, min_size=10, max_size=50), st.integers(1, 3), st.integers(0, 2))
@settings(deadline=None, max_examples=40)
def test_whatever_happens_each_accepted_report_is_stored_in_one_round_and_averaged_once(story, goal, max_staleness):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        rules = {"goal": goal, "minimum": 1, "concurrency": 3, "max_staleness": max_staleness}
        world = World(write_model(path), path, mode=Mode.BUFFERED, **rules)
        averaged: list[tuple[int, str, int]] = []
        for what, *of in story:
            _happen(world, what, of, averaged)
        verdicts: dict[tuple, list[Verdict]] = {}
        for topic, message, _ in world.transport.sent:
            if isinstance(message, Receipt):
                key = (message.round, topic.split("/")[-2], message.attempt)
                verdicts.setdefault(key, []).append(message.verdict)
        tables = world.tables
        seats = [
            ((seat.given.round, device, seat.attempt), state, seat.state)
            for state in tables.rounds.values()
            for device, seat in state.seats.items()
            if seat.state in {SeatState.REPORTED, SeatState.EARLY}
        ]
        assert len({key for key, _, _ in seats}) == len(seats), "a report is in one round"
        accepted = {key for key, found in verdicts.items() if Verdict.ACCEPTED in found}
        assert accepted == {key for key, _, _ in seats}, "an accepted report was lost"
        assert all(found[0] is Verdict.ACCEPTED for key, found in verdicts.items() if key in accepted)
        assert sorted(tables.reports) == sorted((state.number, key[1], key[2]) for key, state, _ in seats)
        waiting = {(state.number, key[1], key[2]) for key, state, _ in seats if state.phase not in TERMINAL} | {
            (state.number, key[1], key[2]) for key, state, held in seats if held is SeatState.EARLY
        }
        assert set(tables.frames) == waiting, "only what waits is kept"
        assert len(averaged) == len(set(averaged))


def _happen(world: World, what: str, of: list, averaged: list) -> None:
    match what:
        case "check in":
            world.check_in(of[0])
        case "report" if world.transport.to(of[0], Assignment):
            report(world, of[0])
        case "report all ever":
            for asked in world.transport.to(of[0], Assignment):
                report(world, of[0], asked)
        case "pass":
            world.tick(of[0])
        case "work":
            for job in world.worker.jobs:
                averaged += [(job.round, each.device, each.attempt) for each in job.reports]
            world.work()
        case "fail":
            for job in list(world.worker.jobs):
                world.worker.jobs.remove(job)
                world.driver.handle(JobEnded(JobFailed("no memory", round=job.round)))
        case "pause":
            paused = world.tables.tasks["keyboard"].state.status.value == "paused"
            operate(world, ResumeTask("keyboard") if paused else PauseTask("keyboard", "now"))
        case "kill":
            world.start()
        case _:
            pass


@pytest.mark.parametrize(
    ("given_settings", "reason"),
    [
        ({"kind": Work.EVALUATE}, "an evaluation makes no versions"),
        ({"privacy": Privacy.SECURE_SUM}, "start together"),
        ({"privacy": Privacy.DP, "rounds": 5}, "noise counts on synchronous rounds"),
        ({"schedule": Schedule(pause_s=60)}, "always at work"),
        ({"staleness": "linear"}, "expected constant, or polynomial"),
    ],
    ids=str,
)
def test_what_a_buffer_cannot_do_is_refused_with_the_reason(given_settings, reason):
    task = TaskSettings(mode=Mode.BUFFERED, **given_settings)
    faults = task_faults(task, NO_LIMITS, measured=False, enrolled=True)
    assert any(reason in fault and "mode: with buffered" in fault for fault in faults)
