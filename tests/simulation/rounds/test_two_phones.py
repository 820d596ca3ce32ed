"""Two phones and two tasks: no task may starve the other."""

import collections
from pathlib import Path

import pytest
from msgspec.structs import replace

from nightjar.coordinator.rounds.eligibility import Variant
from nightjar.coordinator.rounds.round import Phase
from nightjar.simulation.rounds.faults import dangers
from nightjar.simulation.rounds.world import World
from nightjar.wire.shares import share_of

ROUNDS = 30
DAY_S = 86400


@pytest.fixture
def always_free(tmp_path: Path) -> Path:
    """Two phones whose window never ends."""
    path = tmp_path / "windows.csv"
    lines = [f"p{phone},0,{10 * DAY_S},{phone},{10 * DAY_S - 1}" for phone in range(2)]
    path.write_text("device,trace_start_s,trace_end_s,window_start_s,window_end_s\n" + "\n".join(lines) + "\n")
    return path


def lived(world: World) -> collections.Counter:
    assert world.settings.faults == dangers("none")
    world.run()
    return collections.Counter((state.task, state.phase) for state in world.observer.rounds)


@pytest.mark.parametrize("seed", range(1, 4))
def test_two_tasks_share_two_phones_and_few_rounds_are_abandoned(make_world, always_free, seed):
    ended = lived(make_world(devices=2, rounds=ROUNDS, seed=seed, tasks=2, availability=always_free))
    abandoned = sum(count for (_, phase), count in ended.items() if phase is Phase.ABANDONED)
    assert abandoned <= ROUNDS / 5
    assert min(ended["keyboard", Phase.COMMITTED], ended["second", Phase.COMMITTED]) >= ROUNDS / 4


def test_a_task_that_only_one_of_the_phones_may_serve_does_not_keep_it_from_the_other(make_world, always_free):
    world = make_world(devices=2, rounds=ROUNDS, tasks=2, availability=always_free)
    names = [phone.device for phone in world.phones]
    experiment = next(e for e in "abcdefgh" if sum(share_of(e, device) < 0.5 for device in names) == 1)
    world._others = [replace(each, variant=Variant(experiment=experiment, share=0.5)) for each in world._others]
    ended = lived(world)
    assert ended["keyboard", Phase.ABANDONED] <= ended["keyboard", Phase.COMMITTED] / 4
    assert ended["keyboard", Phase.COMMITTED] >= ROUNDS / 2
