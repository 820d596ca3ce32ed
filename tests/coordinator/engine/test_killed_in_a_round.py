"""The coordinator killed at any step of a round, or again and again by one job."""

import contextlib

import pytest

from nightjar.coordinator.records.effects import EvaluateVersion
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.wire.crash_loop import CRASHES_ALLOWED
from nightjar.wire.messages import Assignment, Verdict
from tests.coordinator.engine.reporting import receipts, report, weights_of
from tests.coordinator.fakes import Killed, World
from tests.coordinator.model_folder import write_model


class Script:
    """A round as devices and the worker live it: what is not answered is done again.

    With ``batched`` the messages of a step come together.
    """

    def __init__(self, world: World, *, batched: bool) -> None:
        self.world = world
        self._gather = world.together if batched else contextlib.nullcontext

    def run(self) -> None:
        world = self.world
        with self._gather():
            for device in ("a", "b", "c"):
                if not world.transport.to(device, Assignment):
                    world.check_in(device)
        with self._gather():
            for number, device in enumerate(("a", "b")):
                settled = Verdict.ACCEPTED in receipts(world, device) or Verdict.DUPLICATE in receipts(world, device)
                if world.transport.to(device, Assignment) and not settled:
                    world.receive(device, "report", report(world, device, 0.01 * (number + 1), number + 1))
        world.work()

    @property
    def finished(self) -> bool:
        answered = {Verdict.ACCEPTED, Verdict.DUPLICATE}
        return 1 in self.world.tables.versions and all(answered & set(receipts(self.world, d)) for d in "ab")


def summary(world: World) -> dict:
    with world.repository.transaction() as tx:
        first = tx.round(1)
    return {
        "weights": weights_of(world).tobytes(),
        "versions": sorted(world.tables.versions),
        "accepted": first.devices(SeatState.REPORTED),
        "phase": first.phase,
        "reports": sorted(world.tables.reports),
        "examples": [stored.num_examples for _, stored in sorted(world.tables.reports.items())],
        "open": world.tables.rounds[max(world.tables.rounds)].phase,
    }


def touches(make_world, *, batched: bool) -> int:
    world = make_world(over_selection=1.5)
    count = 0

    def touch() -> None:
        nonlocal count
        count += 1

    world.touch_with(touch)
    Script(world, batched=batched).run()
    assert Script(world, batched=batched).finished
    return count


@pytest.mark.slow
@pytest.mark.parametrize("batched", [False, True])
def test_killed_at_any_step_and_started_again_the_round_ends_the_same(make_world, batched):
    undisturbed = make_world(over_selection=1.5)
    Script(undisturbed, batched=False).run()
    expected = summary(undisturbed)
    total = touches(make_world, batched=batched)
    assert total > (25 if batched else 40)
    for fatal in range(total):
        world = make_world(over_selection=1.5)
        script = Script(world, batched=batched)
        left = [fatal]

        def touch(left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise Killed

        world.touch_with(touch)
        for _ in range(6):
            try:
                script.run()
            except Killed:
                world.start()
            if script.finished:
                break
        assert left[0] <= -1
        assert summary(world) == expected, f"killed at touch {fatal}"
        assert world.tables.frames == {}, f"killed at touch {fatal}: reports were left lying"


def test_killed_before_the_assignment_went_out_it_goes_out_after_the_restart(make_world):
    world = make_world()
    world.check_in("a")
    world.transport.on_touch = _kill
    with pytest.raises(Killed):
        world.check_in("b")
    world.transport.on_touch = lambda: None
    assert world.transport.to("a", Assignment) == []
    world.start()
    assert world.transport.to("a", Assignment)
    assert world.transport.to("b", Assignment)


def _kill() -> None:
    raise Killed


def test_killed_while_averaging_the_job_is_done_again(make_world):
    world = make_world()
    world.check_in("a", "b")
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device))
    assert len(world.worker.jobs) == 1
    world.start()
    assert len(world.worker.jobs) == 1
    world.work()
    assert world.phase_of(1) is Phase.COMMITTED


def test_an_averaging_that_ends_the_process_again_and_again_is_set_aside(make_world):
    world = make_world()
    world.check_in("a", "b")
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device))
    for _ in range(CRASHES_ALLOWED - 1):
        world.start()
        assert len(world.worker.jobs) == 1
    world.start()
    assert world.worker.jobs == []
    assert world.phase_of(1) is Phase.ABANDONED
    assert world.tables.rounds[1].reason == "averaging failed: the coordinator ended 3 times while it was at it"
    assert world.phase_of(2) is Phase.SELECTION
    assert world.counters["effects_set_aside"] == 1
    world.check_in("a", "b")
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device))
    world.work()
    assert world.phase_of(2) is Phase.COMMITTED


def test_a_version_whose_measuring_ends_the_process_stays_unmeasured(tmp_path):
    world = World(write_model(tmp_path), tmp_path, evaluation_text=tmp_path / "text.tsv")
    with world.repository.transaction() as tx:
        tx.add_effect(EvaluateVersion(0))
    for _ in range(CRASHES_ALLOWED):
        world.start()
    assert world.worker.jobs == []
    assert EvaluateVersion(0) not in world.tables.effects.values()
    assert world.phase_of(1) is Phase.SELECTION
