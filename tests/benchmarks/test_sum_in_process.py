"""Secure sums as a whole: exact for every dropout pattern, nothing below the minimum, what liars and colluders learn.

The view of colluders and coordinator is *simulated*: for other updates of the honest devices with the same sum there
are other random numbers, of which the view holds no seed, with which the view is the same to the last byte.
"""

import dataclasses
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.benchmarks.sum_in_process import Silent, run
from nightjar.coordinator.rounds.secure_sum import SumPhase
from nightjar.edge_agent.core.secure_sum import (
    Aborted,
    Disclosed,
    Masked,
    Ready,
    Sharing,
    Tools,
    UpdateEncoded,
    join,
    step,
)
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.secure_sum import masks, messages, shamir
from nightjar.wire.secure_sum.graph import in_order, neighbours
from nightjar.wire.secure_sum.messages import (
    Confirmation,
    Confirmations,
    Deliveries,
    Disclosure,
    MaskedUpdate,
    Roster,
    Survivors,
    bitmap,
    members_of,
)
from tests.secure_sums import PRIMITIVES, cohort, terms

TERMS = terms()
STEPS = st.sampled_from(list(Silent))


def expected(members, included, agreed=TERMS):
    total = sum(members[number].values.astype(np.uint64) for number in included)
    return (total % 2**agreed.bits).astype(np.uint32)


def check(result, members, agreed=TERMS):
    """The sum is exact, or there is none and nobody has disclosed anything from which there could be one."""
    if result.total is None:
        assert result.session.phase is SumPhase.ABANDONED
        return
    assert len(result.included) >= agreed.minimum
    np.testing.assert_array_equal(result.total, expected(members, result.included, agreed))


@settings(max_examples=30)
@given(st.lists(STEPS, min_size=10, max_size=10))
def test_the_sum_is_exact_for_every_dropout_pattern_or_there_is_none(silent):
    members = cohort(TERMS, silent=dict(enumerate(silent)))
    result = run(TERMS, members, PRIMITIVES)
    check(result, members)
    stayed = sum(each is Silent.NEVER for each in silent)
    reported = sum(each > Silent.REPORT for each in silent)
    if stayed >= TERMS.minimum:
        assert result.session.phase is SumPhase.DONE
    if reported < TERMS.minimum:
        assert result.total is None
        assert not any(isinstance(message, Disclosure) for sent in result.up.values() for message in sent)


@pytest.mark.parametrize("step_", list(Silent)[:-1])
def test_three_of_ten_may_drop_out_at_any_step_and_a_fourth_ends_it(step_):
    for count in (3, 4):
        members = cohort(TERMS, silent=dict.fromkeys(range(count), step_))
        result = run(TERMS, members, PRIMITIVES)
        check(result, members)
        if count == 3:
            assert result.included == tuple(range(3 if step_ <= Silent.REPORT else 0, 10))
        elif step_ <= Silent.REPORT:
            assert result.total is None
            assert not any(isinstance(state, Disclosed) for state in result.states.values())


@pytest.mark.parametrize(("bits", "values"), [(1, 9), (7, 33), (16, 5), (17, 8), (32, 3)])
def test_sums_are_modulo_a_power_of_two_of_any_width(bits, values):
    agreed = terms(bits=bits, values=values)
    updates = np.random.default_rng(1).integers(0, 2**bits, (10, values), dtype=np.uint32)
    members = cohort(agreed, silent={2: Silent.REPORT}, values=updates)
    result = run(agreed, members, PRIMITIVES)
    check(result, members, agreed)
    assert result.total is not None


@pytest.mark.slow
def test_a_large_cohort_with_a_sparse_graph_loses_as_many_as_it_may():
    agreed = terms(threshold=4, minimum=21, values=8)
    rng = np.random.default_rng(5)
    for _ in range(3):
        gone = rng.choice(30, 9, replace=False)
        silent = {int(number): Silent(rng.integers(1, 5)) for number in gone}
        members = cohort(agreed, 30, silent)
        assert agreed.degree(30) == 14
        result = run(agreed, members, PRIMITIVES)
        check(result, members, agreed)
        assert result.total is not None


# --- a single report ---


def test_a_single_masked_report_looks_like_random_numbers():
    agreed = terms(values=60_000, bits=16)
    for values in (np.zeros(60_000, np.uint32), np.full(60_000, 2**16 - 1, np.uint32)):
        result = run(agreed, cohort(agreed, 7, values=[values] * 7), PRIMITIVES)
        (report,) = [message for message in result.up[3] if isinstance(message, MaskedUpdate)]
        words = masks.unpack(report.values, agreed)
        # Pearson's chi-squared over low bytes, high bytes and their difference to the next: 255 degrees of freedom.
        for found in (words & 255, words >> 8, np.diff(words) & 255):
            counts = np.bincount(found, minlength=256)
            chi = float(((counts - found.size / 256) ** 2).sum() / (found.size / 256))
            assert abs(chi - 255) < 5 * np.sqrt(2 * 255)
        assert np.unpackbits(np.frombuffer(report.values, np.uint8)).mean() == pytest.approx(0.5, abs=0.003)


def test_the_test_of_randomness_finds_an_update_without_masks():
    counts = np.bincount(np.zeros(60_000, np.int64), minlength=256)
    assert float(((counts - 60_000 / 256) ** 2).sum()) / (60_000 / 256) > 10_000


# --- colluders ---


class Programmed:
    """The primitives, with other streams for some seeds."""

    def __init__(self, added):
        self._added = added

    def expand(self, seed, size):
        stream = PRIMITIVES.expand(seed, size)
        if seed in self._added:
            stream = (np.frombuffer(stream, "<u2") + self._added[seed]).astype("<u2").tobytes()
        return stream

    def __getattr__(self, name):
        return getattr(PRIMITIVES, name)


def transcript(result):
    """All that devices send and are sent, as bytes: the coordinator's view, and more than colluders have."""
    return {
        number: [messages.encode(message) for message in (*result.up.get(number, ()), *result.down.get(number, ()))]
        for number in range(len(result.states))
    }


def places(session, members):
    return {session.roster.index(member.enrolled): number for number, member in enumerate(members)}


def place_of(members, number):
    return in_order(TERMS.session, [member.enrolled for member in members]).index(members[number].enrolled)


def held_shares(result, members, colluders):
    """Shares that colluders and coordinator hold: (device, which of its seeds) -> who held them."""
    held = Counter()
    session, number_of = result.session, places(result.session, members)
    for place, data in session.disclosures.items():
        for other, share in zip(session.sharing_neighbours(place), messages.parts(data, 17), strict=True):
            if shamir.is_share(share):
                held[number_of[other], "self" if other in session.reports else "mask", number_of[place]] += 1
    for place, number in number_of.items():
        if number in colluders:
            for other in session.sharing_neighbours(place):
                held[number_of[other], "self", number] += 1
                held[number_of[other], "mask", number] += 1
    return Counter((device, kind) for device, kind, _ in held)


def pair_seed(result, members, one, other):
    """Seed of the masks of a pair, as only the two know it."""
    keys = {number: result.session.keys[members[number].enrolled] for number in (one, other)}
    secret = PRIMITIVES.derive(members[one].seed, b"mask seed" + TERMS.digest, 16)
    return masks.pair_mask_seed(masks.mask_key(secret, PRIMITIVES), keys[other].mask, TERMS, PRIMITIVES)


def other_updates(honest, seed):
    """Changes of the honest devices' updates that leave their sum as it is."""
    changes = np.random.default_rng(seed).integers(0, 2**16, (len(honest), TERMS.values)).astype(np.int64)
    changes[-1] = -changes[:-1].sum(axis=0)
    return dict(zip(honest, changes, strict=True))


def routed(result, members, honest, changes):
    """Additions to the masks of honest neighbours that make up for the changes: along a tree, from the leaves up."""
    number_of = places(result.session, members)
    parent, order, waiting = {honest[0]: None}, [], [honest[0]]
    while waiting:
        number = waiting.pop()
        order.append(number)
        for place in result.session.neighbours(place_of(members, number)):
            near = number_of[place]
            if near in honest and near not in parent:
                parent[near] = number
                waiting.append(near)
    assert set(order) == set(honest), "the honest devices that reported are connected"
    due, added = {number: -changes[number] for number in honest}, {}
    for number in reversed(order[1:]):
        up = parent[number]
        sign = masks.sign_of(place_of(members, number), place_of(members, up))
        added[pair_seed(result, members, number, up)] = sign * due[number]
        due[up] = due[up] + due[number]
    assert not (due[order[0]] % 2**16).any()
    return added


@pytest.mark.parametrize(
    "silent", [{}, {9: Silent.REPORT, 8: Silent.SHARES}, {9: Silent.REPORT, 8: Silent.REPORT, 7: Silent.CONFIRMATION}]
)
@pytest.mark.parametrize("colluders", [{0, 1}, {4, 9}])
def test_colluders_below_the_threshold_see_the_same_for_any_updates_with_the_same_sum(silent, colluders):
    assert len(colluders) == TERMS.threshold - 1
    members = cohort(TERMS, silent=silent)
    result = run(TERMS, members, PRIMITIVES)
    honest = [number for number in result.included if number not in colluders]
    changes = other_updates(honest, seed=3)
    added = routed(result, members, honest, changes)

    others = [
        dataclasses.replace(member, values=((member.values + changes.get(number, 0)) % 2**16).astype(np.uint32))
        for number, member in enumerate(members)
    ]
    simulated = run(TERMS, others, Programmed(added))
    assert transcript(simulated) == transcript(result)
    np.testing.assert_array_equal(simulated.total, result.total)
    assert any((others[number].values != members[number].values).any() for number in honest)

    # The seeds of the changed numbers come from mask keys of which too few shares were seen.
    shares = held_shares(result, members, colluders)
    assert all(shares[number, "mask"] < TERMS.threshold for number in honest)


def test_as_many_colluders_as_the_threshold_can_lay_an_update_bare():
    members = cohort(TERMS)
    result = run(TERMS, members, PRIMITIVES)
    near = [places(result.session, members)[place] for place in result.session.neighbours(place_of(members, 5))]
    assert held_shares(result, members, near[:3])[5, "mask"] == TERMS.threshold


def test_a_report_that_comes_after_its_pair_masks_were_removed_is_still_masked():
    members = cohort(TERMS, silent={6: Silent.REPORT})
    result = run(TERMS, members, PRIMITIVES)
    shares = held_shares(result, members, {0, 1})
    assert shares[6, "mask"] >= TERMS.threshold, "its pair masks are known"
    assert shares[6, "self"] < TERMS.threshold, "and its self mask is not"

    def late(values, primitives):
        tools = Tools(primitives, members[6].sign)
        (deliveries,) = [message for message in result.down[6] if isinstance(message, Deliveries)]
        state, _ = step(result.states[6], deliveries, tools)
        return step(state, UpdateEncoded(values), tools)[1][0]

    seed = masks.self_mask_seed(PRIMITIVES.derive(members[6].seed, b"self seed" + TERMS.digest, 16), PRIMITIVES)
    other = np.zeros(TERMS.values, np.uint32)
    programmed = Programmed({seed: members[6].values.astype(np.int64)})
    assert late(other, programmed) == late(members[6].values, PRIMITIVES)


# --- a coordinator that lies ---


def test_neighbours_keys_that_the_coordinator_made_itself_are_noticed():
    own = PRIMITIVES.public_key(b"c" * 32)

    def lie(number, message):
        if isinstance(message, Roster) and number == 4:
            return msgspec.structs.replace(message, peers=own + own + message.peers[64:])
        return message

    members = cohort(TERMS)
    result = run(TERMS, members, PRIMITIVES, lie)
    assert "not signed by it" in result.states[4].reason
    assert not any(isinstance(message, MaskedUpdate) for message in result.up[4])
    check(result, members)


def test_a_device_that_is_told_of_another_cohort_ends_the_session_before_it_reports():
    def lie(number, message):
        if isinstance(message, Roster) and number == 4:
            return msgspec.structs.replace(message, enrolled=message.enrolled[:-33])
        return message

    result = run(TERMS, cohort(TERMS), PRIMITIVES, lie)
    assert isinstance(result.states[4], Aborted)
    assert not any(isinstance(message, MaskedUpdate) for message in result.up[4])


def masked(members):
    """Devices that have masked their updates, by place in the roster, with the lists that the coordinator has."""
    result = run(TERMS, members, PRIMITIVES)
    states = {}
    for place, number in places(result.session, members).items():
        tools = Tools(PRIMITIVES, members[number].sign)
        roster, deliveries = result.down[number][:2]
        joined, _ = join(TERMS, members[number].seed, members[number].enrolled, tools)
        state = step(joined, roster, tools)[0]
        state = step(step(state, deliveries, tools)[0], UpdateEncoded(members[number].values), tools)[0]
        assert isinstance(state, Masked)
        states[place] = state
    return result.session, states


def confirm(session, states, members, place, survivors):
    """What a device answers to this list of survivors."""
    number = places(session, members)[place]
    near = [other for other in session.neighbours(place) if other in survivors]
    signatures = b"".join(session.reports[other] for other in near)
    message = Survivors(TERMS.session, bitmap(survivors, 10), signatures)
    return step(states[place], message, Tools(PRIMITIVES, members[number].sign))


def test_two_lists_of_survivors_get_no_quorum_and_nothing_is_disclosed():
    members = cohort(TERMS)
    session, states = masked(members)
    lists = {True: set(range(10)) - {9}, False: set(range(10)) - {0}}
    confirmed = {place: confirm(session, states, members, place, lists[place < 5]) for place in range(1, 9)}
    signatures = {place: sent[0].signature for place, (_, sent) in confirmed.items()}
    for place, (state, _) in confirmed.items():
        alike = [other for other in signatures if (other < 5) == (place < 5)]
        for signers in (alike, sorted(signatures), sorted(signatures)[:7]):
            told = Confirmations(TERMS.session, bitmap(signers, 10), b"".join(signatures[other] for other in signers))
            number = places(session, members)[place]
            following, sent = step(state, told, Tools(PRIMITIVES, members[number].sign))
            assert isinstance(following, Aborted)
            assert sent == ()


def test_a_device_that_is_shown_a_second_list_answers_neither():
    members = cohort(TERMS)
    session, states = masked(members)
    state, _ = confirm(session, states, members, 2, set(range(10)))
    again = {**states, 2: state}
    following, sent = confirm(session, again, members, 2, set(range(10)) - {9})
    assert following == Aborted("two different lists of survivors came")
    assert sent == ()


def test_a_device_whose_neighbours_were_hidden_from_it_is_given_up_by_their_holders():
    """It adds pair masks with few; were its self mask removed, the coordinator could lay it bare."""
    members = cohort(TERMS)
    victim = place_of(members, 0)
    near = neighbours(victim, 10, TERMS.degree(10))
    sharers = set(range(10)) - set(near[:3])

    def lie(number, message):
        if number == 0 and isinstance(message, Deliveries):
            return Deliveries(message.session, bitmap(sharers, 10), message.sealed[3 * 50 :])
        return message

    overlooked = []

    class Accomplice(Programmed):
        """The coordinator overlooks that the signature is of another list."""

        def verify(self, enrolled, signature, signed):
            if signed.startswith(b"sharers") and enrolled == members[0].enrolled and not overlooked:
                overlooked.append(signature)
                return True
            return PRIMITIVES.verify(enrolled, signature, signed)

    result = run(TERMS, members, Accomplice({}), lie)
    assert overlooked
    assert result.total is None
    reasons = {result.states[places(result.session, members)[place]].reason for place in near}
    assert all("told of other sharers" in reason for reason in reasons)
    assert not any(isinstance(message, Disclosure) for sent in result.up.values() for message in sent)


def anything(data, is_changed):
    """Changes messages: another of the same kind, or a bit flipped."""
    seen = {}

    def lie(number, message):
        earlier = seen.setdefault(type(message), [])
        earlier.append(message)
        if not is_changed(number, message) or not data.draw(st.booleans()):
            return message
        if data.draw(st.booleans()):
            return data.draw(st.sampled_from(earlier))
        encoded = bytearray(messages.encode(message))
        at = data.draw(st.integers(0, len(encoded) - 1))
        encoded[at] ^= 1 << data.draw(st.integers(0, 7))
        decode = messages.decode_down if isinstance(message, messages.Down) else messages.decode_up
        try:
            return decode(bytes(encoded))
        except RemoteProtocolError:
            return message

    return lie


@pytest.mark.slow
@settings(max_examples=20)
@given(st.data())
def test_whatever_one_device_sends_no_other_aborts_and_the_sum_of_the_others_is_exact(data):
    liar = data.draw(st.integers(0, 9))
    members = cohort(TERMS)
    result = run(
        TERMS,
        members,
        PRIMITIVES,
        anything(data, lambda number, message: number == liar and isinstance(message, messages.Up)),
    )
    others = [state for number, state in result.states.items() if number != liar]
    assert not any(isinstance(state, Aborted) for state in others)
    if result.total is None:
        place = place_of(members, liar)
        assert result.session.reason.endswith(f"are needed: {place} (0)"), "it dealt wrong shares"
    elif liar not in result.included:
        check(result, members)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.data())
def test_whatever_the_coordinator_changes_no_device_gives_away_both_of_a_devices_seeds(data):
    """Bits flipped, lists swapped, messages of another device: the honest devices' disclosures stay consistent."""
    lie = anything(data, lambda _, message: isinstance(message, messages.Down))
    members = cohort(TERMS, silent={3: Silent.REPORT})
    result = run(TERMS, members, PRIMITIVES, lie)
    if result.total is not None:
        check(result, members)
    confirmed = {
        members_of(state.survivors, 10)
        for state in result.states.values()
        if hasattr(state, "survivors") and isinstance(state.survivors, bytes)
    }
    assert len(confirmed) <= 1 or result.total is None
    for number, sent in result.up.items():
        kinds = Counter(type(message) for message in sent)
        assert kinds[Disclosure] <= 1
        assert kinds[Confirmation] <= 1
        assert isinstance(result.states[number], Disclosed) == (kinds[Disclosure] == 1)


@pytest.mark.parametrize("stage", [Sharing, Ready])
def test_a_device_left_behind_never_discloses(stage):
    silent = {Sharing: Silent.REPORT, Ready: Silent.CONFIRMATION}[stage]
    result = run(TERMS, cohort(TERMS, silent={5: silent}), PRIMITIVES)
    assert not any(isinstance(message, Disclosure) for message in result.up[5])
