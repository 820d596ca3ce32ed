"""Seats behave as a dictionary that is copied at each change."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.seats import MOST_ON_TOP, Seat, Seats, SeatState, with_seat
from wire.identifiers import DeviceId

DEVICES = st.integers(0, 3 * MOST_ON_TOP).map(lambda number: DeviceId(f"device-{number:03d}"))
SEATS = st.builds(
    lambda attempt, state: Seat(attempt=attempt, state=state), st.integers(1, 3), st.sampled_from(SeatState)
)


def same(seats: Seats, expected: dict[DeviceId, Seat]) -> None:
    assert seats == expected
    assert expected == seats
    assert list(seats) == list(expected), "in the order in which they were given"
    assert list(seats.items()) == list(expected.items())
    assert list(seats.values()) == list(expected.values())
    assert len(seats) == len(expected)


@given(st.dictionaries(DEVICES, SEATS), st.lists(st.tuples(DEVICES, SEATS), max_size=4 * MOST_ON_TOP))
def test_any_changes_give_what_a_dictionary_would_hold(given_first, changes):
    seats, expected = given_first, dict(given_first)
    for device, seat in changes:
        before, as_it_was = seats, dict(seats)
        seats, expected = with_seat(seats, device, seat), {**expected, device: seat}
        assert dict(before) == as_it_was, "the former seats do not change"
        assert seats[device] is seat
        assert seats.get(device) is seat
    if changes:
        same(seats, expected)


def test_a_device_without_a_seat():
    seats = with_seat({}, DeviceId("a"), Seat())
    assert "b" not in seats
    assert seats.get(DeviceId("b")) is None


def test_they_are_stored_as_a_plain_mapping():
    seats = with_seat({DeviceId("a"): Seat()}, DeviceId("b"), Seat(attempt=2))
    stored = msgspec.json.encode(seats, enc_hook=Seats.plain)
    assert msgspec.json.decode(stored, type=dict[DeviceId, Seat]) == seats
