"""The machine of releases: every row, every pair, and a power cut at every line."""

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.firmware_scripts.device import releases
from nightjar.firmware_scripts.device.record_file import decode, encode
from nightjar.firmware_scripts.device.releases import (
    Adopt,
    CheckHealth,
    Decline,
    DeviceStarted,
    Discard,
    Empty,
    FoundHealthy,
    FoundUnhealthy,
    Offered,
    PointTo,
    Prune,
    Record,
    ReleaseWithdrawn,
    RestartAgent,
    Settled,
    Tell,
    Trying,
    Unpack,
    Unpacked,
    UnpackFailed,
    Unpacking,
    running,
    step,
)
from nightjar.firmware_scripts.device.switch import Switch
from nightjar.wire.crash_loop import CRASHES_ALLOWED
from nightjar.wire.errors import IllegalEvent, RemoteProtocolError
from nightjar.wire.release_version import numbers

OFFER = Offered("0.2.0", present_is_well=True)
STATES = [
    Empty(),
    Unpacking("0.2.0", None),
    Unpacking("0.2.0", "0.1.0"),
    Trying("0.2.0", None),
    Trying("0.2.0", "0.1.0"),
    Trying("0.2.0", "0.1.0", CRASHES_ALLOWED),
    Settled("0.1.0"),
    Settled("0.2.0", "0.1.0"),
]
EVENTS = [OFFER, Unpacked(), UnpackFailed("disk full"), FoundHealthy(), FoundUnhealthy("silent"), DeviceStarted()]
EVENTS.append(ReleaseWithdrawn("0.2.0", "it crashes"))


def after(state, event, refused=None):
    return step(Record(state, refused or {}), event)


def declined(state, event, refused=None):
    record, effects = after(state, event, refused)
    assert record.state == state
    (effect,) = effects
    return effect.code


def test_a_healthy_release_counts_and_the_one_before_is_kept_beside_it():
    record, effects = after(Settled("0.1.0"), OFFER)
    assert effects == (Unpack("0.2.0"),)
    record, effects = step(record, Unpacked())
    assert effects[0] == PointTo("0.2.0")
    assert effects[-2:] == (RestartAgent(), CheckHealth("0.2.0"))
    record, effects = step(record, FoundHealthy())
    assert record == Record(Settled("0.2.0", "0.1.0"), {})
    assert effects[:2] == (Adopt("0.2.0"), Prune(("0.2.0", "0.1.0")))


def test_a_withdrawn_release_gives_way_to_the_one_before_and_is_never_tried_again():
    record, effects = after(Settled("0.2.0", "0.1.0"), ReleaseWithdrawn("0.2.0", "it drains batteries"))
    assert record == Record(Settled("0.1.0"), {"0.2.0": "withdrawn by the coordinator: it drains batteries"})
    assert effects[:2] == (Adopt("0.1.0"), PointTo("0.1.0"))
    assert effects[-1] == RestartAgent()
    assert declined(Settled("0.1.0"), OFFER, record.refused) == "refused-before"


def test_what_cannot_be_withdrawn_stays():
    assert declined(Settled("0.1.0"), ReleaseWithdrawn("0.1.0", "too old")) == "nothing-before"
    assert declined(Settled("0.1.0"), ReleaseWithdrawn("0.2.0", "elsewhere")) == "not-here"


def test_an_unhealthy_release_is_taken_back_and_never_tried_again():
    record, effects = after(Trying("0.2.0", "0.1.0"), FoundUnhealthy("the agent ended 3 times"))
    assert record == Record(Settled("0.1.0"), {"0.2.0": "the agent ended 3 times"})
    assert effects[0] == PointTo("0.1.0")
    assert RestartAgent() in effects
    record, effects = step(record, OFFER)
    assert effects[0].code == "refused-before"
    assert "the agent ended 3 times" in effects[0].text
    record, effects = step(record, Offered("0.2.1", present_is_well=True))
    assert effects == (Unpack("0.2.1"),)


def test_the_first_release_is_never_taken_back_because_there_is_nothing_to_go_back_to():
    record, effects = after(Trying("0.2.0", None), FoundUnhealthy("no network"))
    assert record.state == Trying("0.2.0", None)
    assert not record.refused
    assert [type(effect) for effect in effects] == [Tell]


def test_a_first_release_that_never_becomes_healthy_can_be_replaced_by_a_newer_one():
    record, effects = after(Trying("0.1.0", None), OFFER)
    assert (record.state, effects) == (Unpacking("0.2.0", None), (Unpack("0.2.0"),))
    assert declined(Trying("0.3.0", None), OFFER) == "downgrade"


def test_a_downgrade_the_same_again_and_an_unwell_present_are_declined():
    assert declined(Settled("0.3.0"), OFFER) == "downgrade"
    assert declined(Settled("0.10.0"), Offered("0.9.0", present_is_well=True)) == "downgrade"
    assert declined(Settled("0.2.0"), OFFER) == "there-already"
    assert declined(Trying("0.2.0", None), OFFER) == "there-already"
    assert declined(Settled("0.1.0"), Offered("0.2.0", present_is_well=False)) == "not-now"
    assert declined(Trying("0.3.0", "0.1.0"), OFFER) == "busy"
    assert declined(Unpacking("0.3.0", "0.1.0"), OFFER) == "busy"


def test_what_could_not_be_unpacked_is_no_fault_of_the_release():
    record, effects = after(Unpacking("0.2.0", "0.1.0"), UnpackFailed("disk full"))
    assert record == Record(Settled("0.1.0"), {})
    assert effects[0] == Discard("0.2.0")
    assert after(Unpacking("0.2.0", None), UnpackFailed("disk full"))[0].state == Empty()


def test_a_bundle_that_can_never_be_unpacked_is_declined_but_may_be_made_again():
    failed = UnpackFailed("no pip among its wheels", lasting=True)
    record, effects = after(Unpacking("0.2.0", "0.1.0"), failed)
    assert record == Record(Settled("0.1.0"), {})
    text = "release 0.2.0 could not be put in place: no pip among its wheels"
    assert effects == (Discard("0.2.0"), Decline("unusable", text))


def test_a_device_that_keeps_falling_over_while_a_release_is_tried_takes_it_back():
    record = Record(Trying("0.2.0", "0.1.0"))
    for _ in range(CRASHES_ALLOWED - 1):
        record, effects = step(record, DeviceStarted())
        assert effects[-1] == CheckHealth("0.2.0")
    record, effects = step(record, DeviceStarted())
    assert record.state == Settled("0.1.0")
    assert "started 3 times" in record.refused["0.2.0"]


@pytest.mark.parametrize(("state", "event"), list(itertools.product(STATES, EVENTS)))
def test_every_pair_is_legal_and_leads_where_its_row_says_or_raises(state, event):
    record = Record(state, {"0.0.1": "bad"})
    row = releases.TABLE.get((type(state), type(event)))
    if row is None:
        with pytest.raises(IllegalEvent):
            step(record, event)
        return
    found, _ = step(record, event)
    assert type(found.state) in row.leads_to
    assert found.refused.items() >= record.refused.items()


@pytest.mark.parametrize("state", STATES)
def test_a_record_survives_the_disk(state):
    record = Record(state, {"0.0.1": 'a "reason"\nwith lines'})
    assert decode(encode(record)) == record


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"state": "settled", "version": "../x", "refused": {}}', b"\xff"]
)
def test_a_damaged_record_is_told(data):
    with pytest.raises(RemoteProtocolError):
        decode(data)


@pytest.mark.parametrize("version", ["", "1.2", "1.2.3.4", "1.2.x", "1.2.-3", "1.2.³", "../../x"])
def test_odd_versions_are_refused(version):
    with pytest.raises(RemoteProtocolError):
        numbers(version)


# ---- a power cut anywhere --------------------------------------------------------------------------------------------


class PowerCut(BaseException):
    """The plug."""


class Board:
    """A device: a disk that survives, and releases that behave as they are told to."""

    def __init__(self, healthy=()):
        self.record = Record(Empty())
        self.folders = set()
        self.current = None
        self.runs = None
        self.starts_agent = False
        self.healthy = set(healthy)
        self.offered = None
        self.lines = 0
        self.cut_at = None

    def line(self):
        self.lines += 1
        if self.lines == self.cut_at:
            raise PowerCut

    def load(self):
        return self.record

    def save(self, record):
        self.line()
        self.record = record
        self.line()

    def run(self, effect):
        self.line()
        came = None
        match effect:
            case Unpack(version):
                self.folders.add(f"half of {version}")
                self.line()
                self.folders.discard(f"half of {version}")
                self.folders.add(version)
                came = Unpacked()
            case Discard(version):
                self.folders -= {version, f"half of {version}"}
            case PointTo(version):
                assert version in self.folders, "current must never lead to what is not there"
                self.current = version
            case RestartAgent(only_if_moved):
                if not only_if_moved or self.runs != self.current:
                    self.runs = self.current
            case CheckHealth(version):
                assert self.runs == version
                came = FoundHealthy() if version in self.healthy else FoundUnhealthy("silent")
            case Prune(keep):
                self.folders &= set(keep)
            case Adopt(_, counts):
                self.starts_agent |= counts
            case Tell() | Decline():
                pass
        self.line()
        return came

    def start(self):
        """Power comes back: an agent that counted starts with what ``current`` leads to, then the switch begins."""
        self.cut_at = None
        self.runs = self.current if self.starts_agent else None
        Switch(self, self).take(DeviceStarted())


def installed(healthy):
    board = Board(healthy)
    Switch(board, board).take(Offered("0.1.0", present_is_well=True))
    assert board.record.state == Settled("0.1.0")
    return board


def lines_of_an_update(healthy):
    board = installed(healthy)
    board.lines = 0
    Switch(board, board).take(OFFER)
    return board.lines


@pytest.mark.parametrize("good", [True, False])
def test_a_power_cut_at_any_line_of_an_update_ends_on_a_release_that_is_whole_and_healthy(good):
    healthy = {"0.1.0", "0.2.0"} if good else {"0.1.0"}
    lines = lines_of_an_update(healthy)
    assert lines > 10
    for cut_at in range(1, lines + 1):
        board = installed(healthy)
        board.lines, board.cut_at = 0, cut_at
        with pytest.raises(PowerCut):
            Switch(board, board).take(OFFER)
        board.start()
        state = board.record.state
        assert isinstance(state, Settled), cut_at
        assert board.current == board.runs == state.version
        assert state.version in board.folders
        assert state.version in healthy
        # What is offered again afterwards comes to the same end as without a cut.
        Switch(board, board).take(OFFER)
        assert board.record.state.version == ("0.2.0" if good else "0.1.0")
        assert ("0.2.0" in board.record.refused) is not good


def test_a_power_cut_at_any_line_of_a_first_installation_is_caught_up_with():
    board = Board({"0.1.0"})
    Switch(board, board).take(Offered("0.1.0", present_is_well=True))
    for cut_at in range(1, board.lines + 1):
        board = Board({"0.1.0"})
        board.cut_at = cut_at
        with pytest.raises(PowerCut):
            Switch(board, board).take(Offered("0.1.0", present_is_well=True))
        board.start()
        if board.record.state == Empty():
            Switch(board, board).take(Offered("0.1.0", present_is_well=True))
        assert board.record.state == Settled("0.1.0")
        assert board.current == board.runs == "0.1.0"


@given(
    st.lists(
        st.tuples(st.sampled_from(["0.1.0", "0.2.0", "0.3.0", "0.3.1"]), st.integers(0, 40), st.booleans()), max_size=8
    ),
    st.sets(st.sampled_from(["0.2.0", "0.3.0", "0.3.1"])),
)
def test_whatever_is_offered_and_cut_a_healthy_release_runs_in_the_end(offers, good):
    board = installed({"0.1.0", *good})
    for version, cut_after, again in offers:
        before = running(board.record.state)
        board.lines, board.cut_at = 0, cut_after or None
        try:
            Switch(board, board).take(Offered(version, present_is_well=True))
        except PowerCut:
            if again:
                board.lines, board.cut_at = 0, 3
                board.runs = board.current
                with contextlib.suppress(PowerCut):
                    Switch(board, board).take(DeviceStarted())
            board.start()
        assert board.record.state.version in board.healthy
        assert numbers(board.record.state.version) >= numbers(before)
        assert board.current == board.runs == board.record.state.version
