import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.rounds.lease import (
    BARRED_S,
    REFUSALS_ALLOWED,
    SHARE_WINDOW,
    TABLE,
    CheckInCame,
    Heard,
    Lease,
    Presence,
    ReportCounted,
    ReportRefused,
    StatusCame,
    WentAway,
    step,
)
from nightjar.wire.errors import IllegalEvent
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import CheckIn, Status

LEASE = Lease(device=DeviceId("a"), last_seen_s=10.0)
OFFER = CheckIn(agent_version="0.1.0", runtime="none", examples=7, emulated=True, weights="0" * 64)


def status(state: str = "training", *, retained: bool = False, now_s: float = 20.0) -> StatusCame:
    return StatusCame(Status(online=True, state=state, reason="round 3"), now_s, retained)


GONE = WentAway(Status(online=False), 20.0)
EVENTS = (Heard(20.0), CheckInCame(OFFER, 20.0), status(), GONE, ReportCounted(3), ReportRefused(20.0))


def in_presence(presence: Presence) -> Lease:
    match presence:
        case Presence.AWAY:
            return LEASE
        case Presence.PRESENT:
            return step(LEASE, Heard(15.0))
        case Presence.READY:
            return step(LEASE, CheckInCame(OFFER, 15.0))


@pytest.mark.parametrize(
    ("presence", "event"),
    list(itertools.product(Presence, EVENTS)),
    ids=lambda v: getattr(v, "value", type(v).__name__),
)
def test_each_pair_is_in_the_table_or_raises_and_changes_nothing(presence, event):
    lease = in_presence(presence)
    assert lease.presence is presence
    row = TABLE.get((presence, type(event)))
    if row is None:
        with pytest.raises(IllegalEvent):
            step(lease, event)
    else:
        assert step(lease, event).presence in row.leads_to
    assert lease == in_presence(presence)


def test_a_report_of_a_device_that_was_not_heard_is_never_counted():
    with pytest.raises(IllegalEvent, match="lease of a, away: ReportCounted"):
        step(LEASE, ReportCounted(3))


def test_a_check_in_tells_what_the_device_holds():
    lease = step(LEASE, CheckInCame(OFFER, 20.0))
    assert (lease.presence, lease.online, lease.last_seen_s) == (Presence.READY, True, 20.0)
    assert (lease.examples, lease.emulated, lease.weights) == (7, True, "0" * 64)


@pytest.mark.parametrize(
    ("state", "presence"),
    [
        ("checked-in", Presence.READY),
        ("", Presence.READY),
        ("preparing", Presence.PRESENT),
        ("resting", Presence.PRESENT),
    ],
)
def test_who_has_checked_in_is_ready_until_it_says_that_it_does_something_else(state, presence):
    assert step(in_presence(Presence.READY), status(state)).presence is presence


def test_a_status_is_a_sign_of_life_unless_the_broker_had_kept_it():
    assert step(LEASE, status()).last_seen_s == 20.0
    kept = step(LEASE, status(retained=True))
    assert (kept.last_seen_s, kept.state, kept.reason, kept.online) == (10.0, "training", "round 3", True)


def test_a_last_will_is_no_sign_of_life():
    lease = step(step(LEASE, Heard(20.0)), WentAway(Status(online=False), 30.0))
    assert (lease.online, lease.state, lease.last_seen_s) == (False, "offline", 20.0)


def test_a_round_that_ends_after_a_newer_one_of_another_task_is_counted_where_it_belongs():
    lease = step(in_presence(Presence.PRESENT), ReportCounted(10))
    lease = step(lease, ReportCounted(8))
    assert (lease.last_round, lease.rounds_counted) == (10, 0b101)
    assert step(step(lease, ReportCounted(100)), ReportCounted(9)).rounds_counted == 1, "too long ago to matter"


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_the_bits_say_the_same_as_a_list_of_rounds(gaps):
    lease, taken = in_presence(Presence.PRESENT), []
    number = 0
    for gap in gaps:
        number += gap
        lease = step(lease, ReportCounted(number))
        taken.append(number)
    assert [back for back in range(SHARE_WINDOW) if lease.rounds_counted >> back & 1] == [
        number - one for one in reversed(taken) if number - one < SHARE_WINDOW
    ]


def test_a_release_that_a_device_took_back_is_known_until_it_says_otherwise():
    said = Status(online=True, state="ineligible", rolled_back="0.2.0: not up within 180 s")
    lease = step(LEASE, StatusCame(said, 20.0, retained=False))
    assert lease.taken_back == "0.2.0: not up within 180 s"
    assert step(lease, GONE).taken_back == lease.taken_back
    assert step(lease, status()).taken_back == ""


@pytest.mark.parametrize("presence", Presence)
def test_reports_that_could_not_be_used_bar_a_device_for_a_while_and_sound_ones_between_them_do_not_help(presence):
    lease = in_presence(presence)
    for number in range(REFUSALS_ALLOWED):
        assert lease.barred_until_s == 0.0
        lease = step(step(step(lease, Heard(20.0)), ReportCounted(number + 1)), ReportRefused(20.0))
    assert (lease.barred_until_s, lease.refusals) == (20.0 + BARRED_S, 0)


def test_what_a_device_says_of_itself_stays_until_it_says_otherwise():
    said = Status(online=True, state="resting", notice="agent.db was put away")
    lease = step(LEASE, StatusCame(said, 20.0, retained=False))
    assert lease.notice == "agent.db was put away"
    gone = step(lease, WentAway(Status(online=False, reason="connection lost"), 30.0))
    assert gone.notice == "agent.db was put away"
    assert step(gone, StatusCame(Status(online=True, state="resting"), 40.0, retained=False)).notice == ""
