"""Which devices a task takes: eligibility and variants."""

import msgspec
import pytest

from nightjar.coordinator.rounds.eligibility import Eligibility, Variant
from nightjar.coordinator.tasks.operations import OperationRefused
from nightjar.wire.errors import ConfigError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Rejection, RejectionReason
from nightjar.wire.shares import share_of
from tests.coordinator.several_tasks import create, rounds_of, state_of


@pytest.mark.parametrize(
    "wanted",
    [
        Eligibility(minimum_agent_version="9.0.0"),
        Eligibility(emulated=True),
    ],
)
def test_a_device_that_one_task_does_not_want_is_given_the_other(make_world, wanted):
    world = make_world(goal=4, minimum=4)
    create(world, "second", goal=4, minimum=4, eligibility=wanted)
    world.check_in(*"abc")
    assert [len(state.pool) for state in world.tables.rounds.values()] == [3, 0]


def test_who_fits_no_task_is_told_why_and_not_soon_again(make_world):
    world = make_world(eligibility=Eligibility(emulated=True))
    world.check_in("a")
    rejection = world.transport.to("a", Rejection)[-1]
    assert (rejection.reason, rejection.detail) == (RejectionReason.NO_TASK, "only emulated phones are wanted")
    assert rejection.retry_after_s >= 900


def test_variants_divide_the_devices_by_their_names_and_leave_the_rest(make_world):
    world = make_world(goal=1000, minimum=1000, eligibility=Eligibility(emulated=True))
    for name, share in (("warm", 0.25), ("cold", 0.5)):
        variant = Variant(experiment="rates", share=share)
        assert create(world, name, variant=variant, eligibility=Eligibility()) is True
    assert isinstance(create(world, "third", variant=Variant(experiment="rates", share=0.5)), OperationRefused)
    devices = [f"device-{number}" for number in range(200)]
    world.check_in(*devices)
    pools = {task: set(rounds_of(world, task)[-1].pool) for task in ("warm", "cold")}
    place = {device: share_of("rates", DeviceId(device)) for device in devices}
    assert pools["warm"] == {device for device in devices if place[device] < 0.25}
    assert pools["cold"] == {device for device in devices if 0.25 <= place[device] < 0.75}
    assert world.transport.to(max(place, key=place.get), Rejection), "this one is in neither"


def test_the_files_task_takes_what_the_other_variants_leave_and_keeps_its_place(make_world):
    world = make_world(variant=Variant(experiment="rates", share=0.5))
    create(world, "second", variant=Variant(experiment="rates", share=0.5))
    assert (state_of(world, "keyboard").slot, state_of(world, "second").slot) == (0.0, 0.5)
    world.start()
    assert state_of(world, "keyboard").slot == 0.0
    larger = msgspec.structs.replace(world.config.task, variant=Variant(experiment="rates", share=0.6))
    world.config = msgspec.structs.replace(world.config, task=larger)
    with pytest.raises(ConfigError, match="too few devices of the experiment rates are left"):
        world.start()
    moved = msgspec.structs.replace(world.config.task, name="third", variant=Variant(experiment="rates", share=0.5))
    world.config = msgspec.structs.replace(world.config, task=moved)
    with pytest.raises(ConfigError, match="too few"):
        world.start()
