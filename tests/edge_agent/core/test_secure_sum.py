"""A device's machine: what it answers, what it keeps, when it stops; with the real coordinator's messages."""

import functools
import itertools

import msgspec
import numpy as np
import pytest

from nightjar.benchmarks.sum_in_process import Silent, run
from nightjar.edge_agent.core import secure_sum
from nightjar.edge_agent.core.secure_sum import (
    TABLE,
    Aborted,
    Disclosed,
    Joined,
    ListConfirmed,
    Masked,
    Ready,
    Sharing,
    State,
    Tools,
    UpdateEncoded,
    join,
    step,
)
from nightjar.wire.errors import IllegalEvent, LocalProtocolError
from nightjar.wire.secure_sum import messages
from nightjar.wire.secure_sum.graph import in_order
from nightjar.wire.secure_sum.messages import Confirmations, Deliveries, Roster, Survivors, bitmap, members_of
from tests.secure_sums import PRIMITIVES, cohort, terms

TERMS = terms()
MEMBERS = cohort(TERMS, silent={8: Silent.REPORT})
ME = MEMBERS[0]
TOOLS = Tools(PRIMITIVES, ME.sign)
UPDATE = UpdateEncoded(ME.values)
MESSAGES = (Roster, Deliveries, Survivors, Confirmations)


@functools.cache
def session():
    """A session of ten, of which one does not report."""
    return run(TERMS, MEMBERS, PRIMITIVES)


def said():
    """What the coordinator tells the first device, in order."""
    return session().down[0]


@functools.cache
def states():
    """The first device's state in each stage, and its answer on entering it."""
    state, sent = join(TERMS, ME.seed, ME.enrolled, TOOLS)
    found = {Joined: (state, sent)}
    roster, deliveries, survivors, confirmations = said()
    for event in (roster, deliveries, UPDATE, survivors, confirmations):
        state, sent = step(state, event, TOOLS)
        found[type(state)] = (state, sent)
    found[Aborted] = (Aborted("for a test"), ())
    return found


def spoilt(message, **changes):
    return msgspec.structs.replace(message, **changes)


def aborted(stage, event):
    """Why this event ends the device's session in this stage."""
    state, sent = step(states()[stage][0], event, TOOLS)
    assert isinstance(state, Aborted), state
    assert sent == ()
    return state.reason


def test_a_session_leads_through_all_stages_and_each_message_is_answered_once():
    assert [stage.__name__ for stage in states()] == [
        "Joined", "Sharing", "Ready", "Masked", "ListConfirmed", "Disclosed", "Aborted",
    ]  # fmt: skip
    answers = [[type(message).__name__ for message in sent] for _, sent in states().values()]
    assert answers == [["MemberKeys"], ["Shares"], [], ["MaskedUpdate"], ["Confirmation"], ["Disclosure"], []]


@pytest.mark.parametrize(("stage", "kind"), list(itertools.product(states(), (*MESSAGES, UpdateEncoded))))
def test_a_pair_is_in_the_table_or_illegal(stage, kind):
    state = states()[stage][0]
    event = UPDATE if kind is UpdateEncoded else said()[MESSAGES.index(kind)]
    before = msgspec.msgpack.encode(state)
    if (stage, kind) in TABLE:
        following, _ = step(state, event, TOOLS)
        assert type(following) in TABLE[stage, kind].leads_to
    else:
        with pytest.raises(IllegalEvent):
            step(state, event, TOOLS)
    assert msgspec.msgpack.encode(state) == before


@pytest.mark.parametrize("stage", list(states()), ids=lambda stage: stage.__name__)
def test_killed_in_any_stage_it_goes_on_as_if_nothing_had_happened(stage):
    state, _ = states()[stage]
    restored = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=State)
    assert restored == state
    for event in (*said(), UPDATE):
        if (stage, type(event)) in TABLE:
            assert step(restored, event, TOOLS) == step(state, event, TOOLS)


@pytest.mark.parametrize(("stage", "place"), [(Sharing, 0), (ListConfirmed, 2), (Disclosed, 3)])
def test_the_same_message_again_gets_the_same_answer(stage, place):
    state, answer = states()[stage]
    assert step(state, said()[place], TOOLS) == (state, answer)


@pytest.mark.parametrize(
    ("stage", "place"),
    [
        (Ready, 0),
        (Masked, 0),
        (ListConfirmed, 0),
        (Disclosed, 0),
        (Ready, 1),
        (Masked, 1),
        (ListConfirmed, 1),
        (Disclosed, 2),
    ],
)
def test_an_old_message_changes_nothing(stage, place):
    state, _ = states()[stage]
    assert step(state, said()[place], TOOLS) == (state, ())


@pytest.mark.parametrize(
    ("stage", "place"),
    [(Joined, 1), (Joined, 2), (Joined, 3), (Sharing, 2), (Sharing, 3), (Ready, 2), (Ready, 3), (Masked, 3)],
)
def test_a_session_that_went_on_without_the_device_is_over_for_it(stage, place):
    assert "went on without this device" in aborted(stage, said()[place])


@pytest.mark.parametrize("place", range(4))
def test_an_aborted_device_stays_aborted(place):
    assert step(Aborted("so"), said()[place], TOOLS) == (Aborted("so"), ())
    assert step(Aborted("so"), UPDATE, TOOLS) == (Aborted("so"), ())


@pytest.mark.parametrize("stage", [Masked, Disclosed])
def test_what_is_no_longer_needed_is_no_longer_held(stage):
    data = msgspec.msgpack.encode(states()[stage][0])
    assert ME.values.tobytes() not in data
    assert (ME.seed in data) == (stage is Masked)


def test_an_update_of_another_length_is_our_own_defect():
    with pytest.raises(LocalProtocolError):
        step(states()[Ready][0], UpdateEncoded(np.zeros(3, np.uint32)), TOOLS)


# --- hostile messages ---


def enrolled(count=10):
    return in_order(TERMS.session, [member.enrolled for member in cohort(TERMS, count)])


ROSTERS = {
    "another session": lambda good: spoilt(good, session=b"x" * 32),
    "members, got 6": lambda good: spoilt(good, enrolled=b"".join(enrolled(6))),
    "members, got 12": lambda good: spoilt(good, enrolled=b"".join(enrolled(12))),
    "not in the session's order": lambda good: spoilt(good, enrolled=good.enrolled[33:] + good.enrolled[:33]),
    "order": lambda good: spoilt(good, enrolled=good.enrolled[:33] + good.enrolled[:-33]),
    "this device is not": lambda good: spoilt(good, enrolled=b"".join(k for k in enrolled(11) if k != ME.enrolled)),
    "not signed by it": lambda good: spoilt(good, peers=bytes(32) + good.peers[32:]),
    "keys of member": lambda good: spoilt(good, peers=good.peers[128:] + good.peers[:128]),
    "parts of 128 bytes": lambda good: spoilt(good, peers=good.peers[128:]),
    "parts of 33 bytes": lambda good: spoilt(good, enrolled=good.enrolled[:-1]),
}


@pytest.mark.parametrize("reason", ROSTERS)
def test_a_roster_that_would_not_protect_ends_the_session(reason):
    assert reason in aborted(Joined, ROSTERS[reason](said()[0]))


SHARERS = members_of(said()[1].sharers, 10)
MY_PLACE = enrolled().index(ME.enrolled)
OTHER_SHARERS = [member for member in SHARERS if member != MY_PLACE]
DELIVERIES = {
    "another session": lambda good: spoilt(good, session=b"x" * 32),
    "this device is not": lambda good: spoilt(good, sharers=bitmap(OTHER_SHARERS, 10)),
    "only 3 devices": lambda good: spoilt(good, sharers=bitmap([MY_PLACE, *OTHER_SHARERS[:2]], 10)),
    "parts of 50 bytes": lambda good: spoilt(good, sealed=good.sealed[50:]),
    "bitmap of 10": lambda good: spoilt(good, sharers=b"\xff\xff"),
}


@pytest.mark.parametrize("reason", DELIVERIES)
def test_deliveries_that_leave_too_few_masks_end_the_session(reason):
    assert reason in aborted(Sharing, DELIVERIES[reason](said()[1]))


REPORTED = members_of(said()[2].survivors, 10)
OTHERS = [member for member in REPORTED if member != MY_PLACE]
NOT_REPORTED = next(member for member in range(10) if member not in REPORTED)
SURVIVORS = {
    "another session": lambda good: spoilt(good, session=b"x" * 32),
    "this device is not": lambda good: spoilt(good, survivors=bitmap(OTHERS, 10)),
    "only 6 devices": lambda good: spoilt(good, survivors=bitmap([MY_PLACE, *OTHERS[:5]], 10)),
    "told of other sharers": lambda good: spoilt(good, signatures=good.signatures[64:] + good.signatures[:64]),
    "parts of 64 bytes": lambda good: spoilt(good, signatures=good.signatures[64:]),
}


@pytest.mark.parametrize("reason", SURVIVORS)
def test_survivors_that_contradict_what_went_before_end_the_session(reason):
    assert reason in aborted(Masked, SURVIVORS[reason](said()[2]))


def test_a_survivor_that_has_not_shared_ends_the_session():
    few = spoilt(said()[1], sharers=bitmap(set(range(10)) - {NOT_REPORTED}, 10))
    place, near = states()[Masked][0].place, states()[Masked][0].place.neighbours
    count = len([member for member in near if member != NOT_REPORTED])
    state = Masked(place, spoilt(few, sealed=few.sealed[: 50 * count]))
    following, _ = step(state, spoilt(said()[2], survivors=bitmap(range(10), 10)), TOOLS)
    assert following == Aborted("a device has reported that has not shared")


SIGNERS = members_of(said()[3].signers, 10)
CONFIRMATIONS = {
    "another session": lambda good: spoilt(good, session=b"x" * 32),
    "expected signatures of 7": lambda good: spoilt(
        good, signers=bitmap(SIGNERS[1:], 10), signatures=good.signatures[64:]
    ),
    "expected signatures": lambda good: spoilt(good, signers=bitmap([*SIGNERS[1:], NOT_REPORTED], 10)),
    "told of other survivors": lambda good: spoilt(good, signatures=good.signatures[64:] + good.signatures[:64]),
    "parts of 64 bytes": lambda good: spoilt(good, signatures=good.signatures[64:]),
}


@pytest.mark.parametrize("reason", CONFIRMATIONS)
def test_confirmations_of_anything_else_end_the_session(reason):
    assert reason in aborted(ListConfirmed, CONFIRMATIONS[reason](said()[3]))


@pytest.mark.parametrize(
    ("stage", "event"),
    [
        (Sharing, spoilt(said()[0], peers=b"")),
        (Ready, spoilt(said()[1], sealed=b"")),
        (Masked, spoilt(said()[1], sealed=b"")),
        (ListConfirmed, spoilt(said()[2], survivors=bitmap(OTHERS, 10))),
    ],
)
def test_a_second_list_in_place_of_the_first_ends_the_session(stage, event):
    assert "two different" in aborted(stage, event)


def test_a_share_that_cannot_be_opened_is_said_to_be_missing_and_the_others_are_disclosed():
    confirmed = states()[ListConfirmed][0]
    sealed = bytes(50) + confirmed.deliveries.sealed[50:]
    damaged = msgspec.structs.replace(confirmed, deliveries=spoilt(confirmed.deliveries, sealed=sealed))
    (good,), (sent,) = states()[Disclosed][1], step(damaged, said()[3], TOOLS)[1]
    assert sent.shares == secure_sum.shamir.NO_SHARE + good.shares[17:]


def test_a_device_discloses_one_share_for_each_neighbour_that_has_shared():
    (sent,) = states()[Disclosed][1]
    state = states()[Masked][0]
    assert len(messages.parts(sent.shares, 17)) == len(set(state.place.neighbours) & set(SHARERS))
