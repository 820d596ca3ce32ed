"""Phones as the rest of the simulation sees them; what their agents do is tested in tests/edge_agent."""

import gc
import tracemalloc

import pytest
from msgspec.structs import replace

from nightjar.simulation.rounds.model import is_bad
from nightjar.wire import frame, messages
from nightjar.wire.messages import DropoutCause


def test_a_phone_that_is_not_free_has_no_driver(make_world):
    world = make_world(devices=300, rounds=4)
    world.run()
    awake = sum(phone.awake for phone in world.phones)
    assert 0 < awake <= world.free + 3  # a report may still wait for its receipt after the window


def test_a_phone_that_slept_knows_why_it_is_not_free_and_does_not_say_that_it_restarted(make_world):
    world = make_world(devices=300, rounds=2)
    assignments, dropouts = [], []
    send, take = world.broker.from_coordinator, world.broker.from_phone

    def sent(topic: str, payload: bytes, *, retain: bool) -> None:
        if topic.endswith("/assignment"):
            assignments.append((topic, payload))
        send(topic, payload, retain=retain)

    def said(topic: str, payload: bytes, *, retain: bool) -> bool:
        if topic.endswith("/dropout"):
            dropouts.append(messages.decode("dropout", payload).cause)
        return take(topic, payload, retain=retain)

    world.broker.from_coordinator, world.broker.from_phone = sent, said
    world.run()
    dropouts.clear()
    asleep = next(phone for phone in world.phones if not phone.awake)
    asleep.arrived(*assignments[-1])
    assert len(dropouts) == 1
    assert dropouts[0] in {DropoutCause.IN_USE, DropoutCause.UNPLUGGED, DropoutCause.METERED}


def test_a_phone_says_what_its_keyboard_saves_with_a_version_and_with_the_announced_one(make_world):
    world = make_world(devices=120, rounds=12, seed=2, canaries=0.4)
    found = []
    send, take = world.broker.from_coordinator, world.broker.from_phone

    def sent(topic: str, payload: bytes, *, retain: bool) -> None:
        if topic.endswith("/assignment"):  # whether or not this coordinator asks for it
            asked = messages.decode("assignment", payload)
            payload = messages.encode(replace(asked, plan=replace(asked.plan, keystrokes=True)))
        send(topic, payload, retain=retain)

    def said(topic: str, payload: bytes, *, retain: bool) -> bool:
        if topic.endswith("/report"):
            found.append(frame.decode(payload))
        return take(topic, payload, retain=retain)

    world.broker.from_coordinator, world.broker.from_phone = sent, said
    world.run()
    keyboards = [(report.version, report.keyboard) for report in found if report.keyboard is not None]
    assert len(keyboards) > len(found) / 2
    saved = {False: 500, True: 250}
    for version, keyboard in keyboards:
        assert keyboard.letters == 1000
        assert keyboard.saved == saved[is_bad(version, 2)]
        assert keyboard.saved_announced == saved[is_bad(keyboard.announced, 2)]
    assert any(version != keyboard.announced for version, keyboard in keyboards)


@pytest.mark.slow
def test_a_phone_that_sleeps_takes_a_few_kilobytes(make_world):
    def traced_bytes(devices: int) -> int:
        tracemalloc.start()
        world = make_world(devices=devices, rounds=1)
        world.run()
        gc.collect()
        size_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return size_bytes

    traced_bytes(50)  # whatever is kept for ever is there now
    each_bytes = (traced_bytes(400) - traced_bytes(150)) / 250
    assert 0 < each_bytes < 6_000
