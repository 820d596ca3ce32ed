"""Phones as the rest of the simulation sees them; what their agents do is tested in tests/edge_agent."""

import tracemalloc


def test_a_phone_that_is_not_free_has_no_driver(make_world):
    world = make_world(devices=300, rounds=4)
    world.run()
    awake = sum(phone.awake for phone in world.phones)
    assert 0 < awake <= world.free + 3  # a report may still wait for its receipt after the window


def test_a_phone_that_sleeps_takes_a_few_kilobytes(make_world):
    def traced_bytes(devices: int) -> int:
        tracemalloc.start()
        world = make_world(devices=devices, rounds=1)
        world.run()
        size_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return size_bytes

    traced_bytes(50)  # whatever is kept for ever is there now
    each_bytes = (traced_bytes(400) - traced_bytes(150)) / 250
    assert 0 < each_bytes < 6_000
