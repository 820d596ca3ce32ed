"""The coordinator's machine: phases, refusals, and sessions that are abandoned. With real devices' messages."""

import functools
import itertools

import msgspec
import pytest

from nightjar.benchmarks.sum_in_process import Silent, run
from nightjar.coordinator.rounds.secure_sum import (
    TABLE,
    Blame,
    KeepValues,
    MessagesLost,
    Refuse,
    Send,
    StepContext,
    SumPhase,
    SumSession,
    TimeUp,
    Unmask,
    open_session,
    step,
)
from nightjar.coordinator.rounds.seed_recovery import DEALT_WRONG, GAVE_BACK_WRONG
from nightjar.wire.errors import IllegalEvent, LocalProtocolError
from nightjar.wire.secure_sum import messages
from nightjar.wire.secure_sum.messages import Confirmation, Disclosure, MaskedUpdate, MemberKeys, Shares
from tests.secure_sums import PRIMITIVES, cohort, enrolled_key, terms

TERMS = terms()
MEMBERS = cohort(TERMS)
KINDS = (MemberKeys, Shares, MaskedUpdate, Confirmation, Disclosure)
AWAITED = dict(zip(SumPhase, KINDS, strict=False))
TIME_UP = (TimeUp(), StepContext(PRIMITIVES))


@functools.cache
def session():
    """A session of ten that all of them finish."""
    return run(TERMS, MEMBERS, PRIMITIVES)


def said(number, kind):
    """A device's message, and who it comes from."""
    (message,) = [message for message in session().up[number] if isinstance(message, kind)]
    return message, StepContext(PRIMITIVES, MEMBERS[number].enrolled)


def until(phase, silent=()):
    """A session that waits for the first message of this phase; these devices drop out in it."""
    state = open_session(TERMS, [member.enrolled for member in MEMBERS])
    for kind in KINDS:
        if state.phase is phase:
            break
        for number in range(10):
            state, _ = step(state, *said(number, kind))
    for number in range(10):
        if number not in silent and phase in AWAITED:
            state, _ = step(state, *said(number, AWAITED[phase]))
    return state


def before(phase):
    return until(phase, silent=range(10))


@pytest.mark.parametrize(("phase", "kind"), list(itertools.product(SumPhase, (*KINDS, TimeUp, MessagesLost))))
def test_a_pair_is_in_the_table_or_illegal(phase, kind):
    state = msgspec.structs.replace(before(phase), phase=phase)
    event, given = said(0, kind) if kind in KINDS else (kind(), StepContext(PRIMITIVES))
    kept = msgspec.msgpack.encode(state)
    if (phase, kind) in TABLE:
        following, _ = step(state, event, given)
        assert following.phase in TABLE[phase, kind].leads_to
    else:
        with pytest.raises(IllegalEvent):
            step(state, event, given)
    assert msgspec.msgpack.encode(state) == kept


def test_a_session_opens_for_a_quorum_and_no_more():
    keys = [enrolled_key(number).public for number in range(12)]
    for wrong in (keys[:6], keys[:12]):
        with pytest.raises(LocalProtocolError, match="7 to 11 devices"):
            open_session(TERMS, wrong)


@pytest.mark.parametrize("phase", AWAITED)
def test_when_the_last_answer_comes_the_next_question_goes_to_all_that_answered(phase):
    state = until(phase, silent=[9])
    assert state.phase is phase
    following, effects = step(state, *said(9, AWAITED[phase]))
    asked = {effect.receiver for effect in effects if isinstance(effect, Send)}
    if phase is SumPhase.DISCLOSURES:
        assert following.phase is SumPhase.DONE
        assert isinstance(effects[-1], Unmask)
    else:
        assert following.phase is list(SumPhase)[list(SumPhase).index(phase) + 1]
        assert asked == {member.enrolled for member in MEMBERS}


@pytest.mark.parametrize("phase", AWAITED)
def test_when_time_is_up_the_session_goes_on_with_the_minimum(phase):
    state, effects = step(until(phase, silent=[1, 2, 3]), *TIME_UP)
    assert state.phase is list(SumPhase)[list(SumPhase).index(phase) + 1]
    assert len([effect for effect in effects if isinstance(effect, Send)]) == (
        0 if phase is SumPhase.DISCLOSURES else 7
    )


@pytest.mark.parametrize("phase", AWAITED)
def test_with_fewer_it_is_abandoned_and_nothing_is_sent(phase):
    silent = range(1, 9) if phase is SumPhase.DISCLOSURES else range(1, 5)
    state, effects = step(until(phase, silent), *TIME_UP)
    assert (state.phase, effects) == (SumPhase.ABANDONED, ())
    assert state.reason


@pytest.mark.parametrize("phase", list(AWAITED)[1:])
def test_a_nudge_asks_only_those_that_have_not_answered(phase):
    state, effects = step(until(phase, silent=[4, 6]), MessagesLost(), StepContext(PRIMITIVES))
    assert {effect.receiver for effect in effects} == {MEMBERS[4].enrolled, MEMBERS[6].enrolled}
    assert state == until(phase, silent=[4, 6])


@pytest.mark.parametrize("phase", AWAITED)
def test_a_message_twice_counts_once(phase):
    state = until(phase, silent=[4, 6])
    following, effects = step(state, *said(3, AWAITED[phase]))
    assert (following, effects) == (state, ())


@pytest.mark.parametrize(("phase", "kind"), list(itertools.product(SumPhase, KINDS)))
def test_a_message_of_another_phase_changes_nothing(phase, kind):
    if AWAITED.get(phase) is not kind:
        state = before(phase) if phase in AWAITED else msgspec.structs.replace(before(SumPhase.DONE), phase=phase)
        assert step(state, *said(0, kind)) == (state, ())


@pytest.mark.parametrize("phase", AWAITED)
def test_killed_in_any_phase_it_goes_on_as_if_nothing_had_happened(phase):
    state = until(phase, silent=[9])
    restored = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=SumSession)
    assert restored == state
    assert step(restored, *said(9, AWAITED[phase])) == step(state, *said(9, AWAITED[phase]))


BAD = [
    (SumPhase.KEYS, {"signature": bytes(64)}, "not signed"),
    (SumPhase.KEYS, {"channel": bytes(32)}, "not signed"),
    (SumPhase.KEYS, {"session": b"x" * 32}, "another session"),
    (SumPhase.SHARES, {"sealed": bytes(50)}, "parts of 50 bytes"),
    (SumPhase.REPORTS, {"signature": bytes(64)}, "not signed"),
    (SumPhase.REPORTS, {"values": bytes(39)}, "40 bytes"),
    (SumPhase.CONFIRMATIONS, {"signature": bytes(64)}, "not signed"),
    (SumPhase.DISCLOSURES, {"shares": bytes(17)}, "parts of 17 bytes"),
]


@pytest.mark.parametrize(("phase", "change", "reason"), BAD)
def test_a_bad_message_is_refused_and_may_come_again_right(phase, change, reason):
    state = before(phase)
    message, given = said(0, AWAITED[phase])
    following, (refusal,) = step(state, msgspec.structs.replace(message, **change), given)
    assert following == state
    assert isinstance(refusal, Refuse)
    assert reason in refusal.reason
    assert step(state, message, given)[0] != state


@pytest.mark.parametrize("keys", [(bytes(32), b"\x09" + bytes(31)), (b"\x09" + bytes(31), bytes(32))])
def test_keys_that_would_make_the_neighbours_abort_are_refused_though_signed(keys):
    message, given = said(0, MemberKeys)
    signature = MEMBERS[0].sign(messages.keys_statement(TERMS, *keys))
    bad = MemberKeys(message.session, *keys, signature, message.commitment)
    state = before(SumPhase.KEYS)
    following, (refusal,) = step(state, bad, given)
    assert following == state
    assert "small order" in refusal.reason


@pytest.mark.parametrize("phase", AWAITED)
def test_a_stranger_and_a_device_that_dropped_out_are_refused(phase):
    message, _ = said(0, AWAITED[phase])
    stranger = StepContext(PRIMITIVES, enrolled_key(77).public)
    _, (refusal,) = step(before(phase), message, stranger)
    assert isinstance(refusal, Refuse)
    if phase not in {SumPhase.KEYS, SumPhase.SHARES}:
        previous = list(SumPhase)[list(SumPhase).index(phase) - 1]
        without, _ = step(until(previous, silent=[0]), *TIME_UP)
        _, (refusal,) = step(without, *said(0, AWAITED[phase]))
        assert "dropped out" in refusal.reason


def test_values_are_kept_before_anything_follows_from_them():
    state = until(SumPhase.REPORTS, silent=[9])
    _, (kept, *others) = step(state, *said(9, MaskedUpdate))
    assert isinstance(kept, KeepValues)
    assert kept.values == said(9, MaskedUpdate)[0].values
    assert all(isinstance(effect, Send) for effect in others)


@pytest.mark.parametrize("liar", range(10))
def test_wrong_shares_of_one_device_are_left_out(liar):
    result = run(TERMS, cohort(TERMS, silent={(liar + 1) % 10: Silent.REPORT}), PRIMITIVES)
    session, key = result.session, MEMBERS[liar].enrolled
    place = session.roster.index(key)
    count = len(messages.parts(session.disclosures[place], 17))
    lied = {**session.disclosures, place: b"".join(bytes([7 * number + 1]) * 17 for number in range(count))}
    state = msgspec.structs.replace(session, phase=SumPhase.DISCLOSURES, disclosures=lied)
    following, (*blamed, plan) = step(state, *TIME_UP)
    honest = step(msgspec.structs.replace(state, disclosures=session.disclosures), *TIME_UP)[1][0]
    assert (following.phase, blamed, plan) == (SumPhase.DONE, [Blame(key, GAVE_BACK_WRONG)], honest)


def test_more_wrong_shares_than_can_be_left_out_abandon_the_session():
    state = before(SumPhase.DISCLOSURES)
    for number in range(10):
        message, given = said(number, Disclosure)
        state, effects = step(state, Disclosure(message.session, b"\x01" * len(message.shares)), given)
    assert state.phase is SumPhase.ABANDONED
    assert all(isinstance(effect, Blame) for effect in effects)
    assert "a seed cannot be found" in state.reason


SMALL = terms(threshold=3, minimum=7)


def lying(*liars):
    """Devices that give back wrong shares of others' seeds."""

    def changed(number, message):
        if number in liars and isinstance(message, Disclosure):
            return msgspec.structs.replace(message, shares=b"\x01" * len(message.shares))
        return message

    return changed


@pytest.mark.parametrize("liars", list(itertools.combinations(range(10), 2)))
@pytest.mark.parametrize("silent", [{}, {4: Silent.REPORT}])
def test_no_pair_of_tolerated_colluders_ends_a_sum_by_wrong_shares_and_both_are_named(liars, silent):
    result = run(SMALL, cohort(SMALL, silent=silent), PRIMITIVES, lying(*liars))
    guilty = {number for number in liars if number not in silent}
    assert (result.session.phase, set(result.blamed)) == (SumPhase.DONE, guilty)


@pytest.mark.parametrize("dealer", range(10))
@pytest.mark.parametrize("wrong_for", [3, 5])
def test_wrong_shares_are_pinned_on_their_dealer_and_do_not_end_the_sum_where_enough_are_right(dealer, wrong_for):
    def changed(number, message):
        if number == dealer and isinstance(message, Shares):
            sealed = bytes(wrong_for * messages.SEALED_SHARES_BYTES)
            return msgspec.structs.replace(message, sealed=sealed + message.sealed[len(sealed) :])
        return message

    many = terms(threshold=3, minimum=7)
    result = run(many, cohort(many), PRIMITIVES, changed)
    degree = many.degree(10)
    ended = SumPhase.DONE if degree - wrong_for >= 3 else SumPhase.ABANDONED
    assert (result.session.phase, result.blamed) == (ended, {dealer: DEALT_WRONG})
