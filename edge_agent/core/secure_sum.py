"""A device's side of a secure sum, as a state machine without I/O.

Theory of operation
===================

The device joins a session (:func:`join`) and then answers the coordinator's messages, as the table in
:mod:`nightjar.wire.secure_sum` says::

    JOINED --(roster)--> SHARING --(deliveries)--> READY --(update encoded)--> MASKED
           --(survivors)--> CONFIRMED --(confirmations)--> DISCLOSED

It may train meanwhile, and masks its update when the shares of others have come. Whatever is not as the protocol says
ends in ABORTED: nothing more is sent, so what was masked stays masked. That includes a second list in place of one that
was answered. The same message again is answered with the same bytes, because messages get lost; one that comes too late
changes nothing.

A state is stored before its answer is sent, and holds all that the next step needs, so a kill loses nothing. All
secrets come from one random seed. A state that needs it no more does not hold it.

::

    step(state, event, tools) -> (state, messages to send)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.machine import Row, find_row, row, table
from nightjar.wire.secure_sum import masks, messages, shamir
from nightjar.wire.secure_sum.graph import in_order, neighbours
from nightjar.wire.secure_sum.messages import (
    Confirmation,
    Confirmations,
    Deliveries,
    Disclosure,
    MaskedUpdate,
    MemberKeys,
    Roster,
    Shares,
    Survivors,
    Up,
)
from nightjar.wire.secure_sum.primitives import ENROLLED_BYTES, KEY_BYTES, SEED_BYTES, SIGNATURE_BYTES, Primitives
from nightjar.wire.secure_sum.terms import Terms


def _rows() -> Iterable[Row[Result]]:
    """All legal pairs of state and event; any other pair raises IllegalEvent."""
    return (
        row(Joined, Roster, _share, Sharing, Aborted),
        row(Joined, Deliveries, _left_out, Aborted),
        row(Joined, Survivors, _left_out, Aborted),
        row(Joined, Confirmations, _left_out, Aborted),
        row(Sharing, Roster, _share_again, Sharing, Aborted),
        row(Sharing, Deliveries, _take_shares, Ready, Aborted),
        row(Sharing, Survivors, _left_out, Aborted),
        row(Sharing, Confirmations, _left_out, Aborted),
        row(Ready, Roster, _stay, Ready),
        row(Ready, Deliveries, _same_deliveries, Ready, Aborted),
        row(Ready, UpdateEncoded, _mask, Masked),
        row(Ready, Survivors, _left_out, Aborted),
        row(Ready, Confirmations, _left_out, Aborted),
        row(Masked, Roster, _stay, Masked),
        row(Masked, Deliveries, _same_deliveries, Masked, Aborted),
        row(Masked, Survivors, _confirm, ListConfirmed, Aborted),
        row(Masked, Confirmations, _left_out, Aborted),
        row(ListConfirmed, Roster, _stay, ListConfirmed),
        row(ListConfirmed, Deliveries, _stay, ListConfirmed),
        row(ListConfirmed, Survivors, _confirm_again, ListConfirmed, Aborted),
        row(ListConfirmed, Confirmations, _disclose, Disclosed, Aborted),
        row(Disclosed, Roster, _stay, Disclosed),
        row(Disclosed, Deliveries, _stay, Disclosed),
        row(Disclosed, Survivors, _stay, Disclosed),
        row(Disclosed, Confirmations, _disclose_again, Disclosed),
        row(Aborted, Roster, _stay, Aborted),
        row(Aborted, Deliveries, _stay, Aborted),
        row(Aborted, UpdateEncoded, _stay, Aborted),
        row(Aborted, Survivors, _stay, Aborted),
        row(Aborted, Confirmations, _stay, Aborted),
    )


@dataclass(frozen=True, slots=True)
class Tools:
    """The cryptography, and what signs with the device's enrolled key."""

    primitives: Primitives
    sign: Callable[[bytes], bytes]


class Membership(msgspec.Struct, frozen=True):
    """A device's place in a session; all its secrets come from ``seed``, 32 random bytes."""

    terms: Terms
    seed: bytes
    roster: Roster
    member: int

    @property
    def cohort(self) -> int:
        """Number of members."""
        return len(self.roster.enrolled) // ENROLLED_BYTES

    @property
    def enrolled(self) -> list[bytes]:
        """Enrolled key of each member."""
        return messages.parts(self.roster.enrolled, ENROLLED_BYTES)

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The device's neighbours, ascending."""
        return neighbours(self.member, self.cohort, self.terms.degree(self.cohort))

    @property
    def peers(self) -> dict[int, NeighbourKeys]:
        """The neighbours' keys."""
        cut = messages.parts(self.roster.peers, messages.PEER_BYTES, len(self.neighbours))
        return {
            member: NeighbourKeys(part[:KEY_BYTES], part[KEY_BYTES : 2 * KEY_BYTES], part[2 * KEY_BYTES :])
            for member, part in zip(self.neighbours, cut, strict=True)
        }

    @property
    def digest(self) -> bytes:
        """A hash of terms and roster."""
        return messages.roster_digest(self.terms, [self.roster.enrolled])


@dataclass(frozen=True, slots=True)
class NeighbourKeys:
    """A neighbour's keys and its signature of them."""

    channel: bytes
    mask: bytes
    signature: bytes


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    """The device's keys were sent; ``seed`` are 32 random bytes, ``enrolled`` is its enrolled key, public."""

    terms: Terms
    seed: bytes
    enrolled: bytes


class Sharing(msgspec.Struct, frozen=True, tag="sharing"):
    """The shares of its seeds were sent."""

    place: Membership
    answer: Shares


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Shares of other devices' seeds have come; the update may be masked."""

    place: Membership
    deliveries: Deliveries


class Masked(msgspec.Struct, frozen=True, tag="masked"):
    """The masked update is in the outbox."""

    place: Membership
    deliveries: Deliveries


class ListConfirmed(msgspec.Struct, frozen=True, tag="confirmed"):
    """The list of those that have reported was signed."""

    place: Membership
    deliveries: Deliveries
    survivors: bytes
    answer: Confirmation


class Disclosed(msgspec.Struct, frozen=True, tag="disclosed"):
    """The shares that remove masks were sent. The state holds no secret any more."""

    answer: Disclosure


class Aborted(msgspec.Struct, frozen=True, tag="aborted"):
    """The device answers no more; ``reason`` says why, in words."""

    reason: str


State = Joined | Sharing | Ready | Masked | ListConfirmed | Disclosed | Aborted


@dataclass(frozen=True, slots=True, eq=False)
class UpdateEncoded:
    """Training is over; ``values`` are (values,) uint32 below 2**bits."""

    values: masks.Words


Event = Roster | Deliveries | UpdateEncoded | Survivors | Confirmations
Result = tuple[State, tuple[Up, ...]]


def join(terms: Terms, seed: bytes, enrolled: bytes, tools: Tools) -> tuple[Joined, tuple[Up, ...]]:
    """Join a session.

    The caller has not joined this session before; ``seed`` are 32 random bytes, ``enrolled`` is the device's public
    key.
    """
    channel = tools.primitives.public_key(_channel_key(terms, seed, tools))
    mask = tools.primitives.public_key(_mask_key(terms, seed, tools))
    signature = tools.sign(messages.keys_statement(terms, channel, mask))
    commitment = masks.commitment(_self_seed(terms, seed, tools), tools.primitives)
    return Joined(terms, seed, enrolled), (MemberKeys(terms.session, channel, mask, signature, commitment),)


def step(state: State, event: Event, tools: Tools) -> Result:
    """Make one transition.

    Raises:
        IllegalEvent: the table has no such row.
    """
    matched = find_row(TABLE, type(state), type(event), lambda: f"secure sum, {type(state).__name__.lower()}")
    try:
        return matched.handle(state, event, tools)
    except RemoteProtocolError as error:
        return Aborted(str(error)), ()


def _stay(state: State, _event: Event, _tools: Tools) -> Result:
    return state, ()


def _left_out(_state: State, event: Event, _tools: Tools) -> Result:
    msg = f"the session went on without this device: {type(event).__name__.lower()} came too early"
    raise RemoteProtocolError(msg, code="secure-sum")


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise RemoteProtocolError(message, code="secure-sum")


# --- shares ---


def _share(state: Joined, roster: Roster, tools: Tools) -> Result:
    terms, enrolled = state.terms, tuple(messages.parts(roster.enrolled, ENROLLED_BYTES))
    _expect(roster.session == terms.session, "a roster of another session came")
    _expect(
        terms.minimum <= len(enrolled) <= terms.largest_cohort,
        f"expected {terms.minimum} to {terms.largest_cohort} members, got {len(enrolled)}",
    )
    _expect(enrolled == in_order(terms.session, enrolled), "the roster is not in the session's order")
    _expect(state.enrolled in enrolled, "this device is not in the roster")
    place = Membership(terms, state.seed, roster, enrolled.index(state.enrolled))
    for member, peer in place.peers.items():
        statement = messages.keys_statement(terms, peer.channel, peer.mask)
        signed = tools.primitives.verify(enrolled[member], peer.signature, statement)
        _expect(signed, f"the keys of member {member} are not signed by it")
    dealt = list(_dealt_shares(place, tools))
    sealed = b"".join(text for text, _ in dealt)
    answer = Shares(terms.session, sealed, b"".join(commitments for _, commitments in dealt))
    return Sharing(place, answer), (answer,)


def _dealt_shares(place: Membership, tools: Tools) -> Iterable[tuple[bytes, bytes]]:
    """For each neighbour the sealed shares, and the commitments to them."""
    terms, seed = place.terms, place.seed
    points = [shamir.point_of(member) for member in place.neighbours]
    halves = []
    for secret in (_mask_seed(terms, seed, tools), _self_seed(terms, seed, tools)):
        size = (terms.threshold - 1) * shamir.COEFFICIENT_BYTES
        stream = tools.primitives.derive(seed, b"coefficients" + place.digest + secret, SEED_BYTES)
        halves.append(shamir.split(secret, terms.threshold, points, tools.primitives.expand(stream, size)))
    for (member, peer), ofmask, ofself in zip(place.peers.items(), *halves, strict=True):
        both = (messages.share_commitment(place.digest, place.member, member, share) for share in (ofmask, ofself))
        key = _seal_key(place, place.member, member, peer, tools)
        yield tools.primitives.seal(key, ofmask + ofself), b"".join(both)


def _seal_key(place: Membership, sender: int, receiver: int, peer: NeighbourKeys, tools: Tools) -> bytes:
    """The key of the one text that goes from one to the other."""
    secret = tools.primitives.agree(_channel_key(place.terms, place.seed, tools), peer.channel)
    ends = sender.to_bytes(2, "little") + receiver.to_bytes(2, "little")
    return tools.primitives.derive(secret, b"shares" + place.digest + ends, SEED_BYTES)


def _share_again(state: Sharing, roster: Roster, _tools: Tools) -> Result:
    _expect(roster == state.place.roster, "two different rosters came")
    return state, (state.answer,)


# --- report ---


def _take_shares(state: Sharing, deliveries: Deliveries, _tools: Tools) -> Result:
    place = state.place
    _expect(deliveries.session == place.terms.session, "shares of another session came")
    sharers = messages.members_of(deliveries.sharers, place.cohort)
    _expect(place.member in sharers, "this device is not among those that have shared")
    _expect(len(sharers) >= place.terms.minimum, f"only {len(sharers)} devices have shared")
    messages.parts(deliveries.sealed, messages.SEALED_SHARES_BYTES, len(_sharing_neighbours(place, deliveries)))
    return Ready(place, deliveries), ()


def _sharing_neighbours(place: Membership, deliveries: Deliveries) -> list[int]:
    sharers = set(messages.members_of(deliveries.sharers, place.cohort))
    return [member for member in place.neighbours if member in sharers]


def _same_deliveries(state: Ready | Masked, deliveries: Deliveries, _tools: Tools) -> Result:
    _expect(deliveries == state.deliveries, "two different deliveries came")
    return state, ()


def _mask(state: Ready, event: UpdateEncoded, tools: Tools) -> Result:
    place, terms = state.place, state.place.terms
    masks.check_values(event.values, terms)
    seeds = [(1, masks.self_mask_seed(_self_seed(terms, place.seed, tools), tools.primitives))]
    own, peers = _mask_key(terms, place.seed, tools), place.peers
    for member in _sharing_neighbours(place, state.deliveries):
        seed = masks.pair_mask_seed(own, peers[member].mask, terms, tools.primitives)
        seeds.append((masks.sign_of(place.member, member), seed))
    masked = event.values + masks.total_mask(seeds, terms, tools.primitives)
    signature = tools.sign(messages.sharers_statement(place.digest, state.deliveries.sharers))
    answer = MaskedUpdate(terms.session, signature, masks.pack(masked, terms))
    return Masked(place, state.deliveries), (answer,)


# --- confirmation and disclosure ---


def _confirm(state: Masked, event: Survivors, tools: Tools) -> Result:
    place, sharers = state.place, state.deliveries.sharers
    _expect(event.session == place.terms.session, "survivors of another session came")
    survivors = messages.members_of(event.survivors, place.cohort)
    _expect(place.member in survivors, "this device is not among those that have reported")
    _expect(len(survivors) >= place.terms.minimum, f"only {len(survivors)} devices have reported")
    _expect(
        set(survivors) <= set(messages.members_of(sharers, place.cohort)), "a device has reported that has not shared"
    )
    reporting = [member for member in place.neighbours if member in survivors]
    signatures = messages.parts(event.signatures, SIGNATURE_BYTES, len(reporting))
    statement, enrolled = messages.sharers_statement(place.digest, sharers), place.enrolled
    for member, signature in zip(reporting, signatures, strict=True):
        signed = tools.primitives.verify(enrolled[member], signature, statement)
        _expect(signed, f"member {member} was told of other sharers")
    answer = Confirmation(
        place.terms.session, tools.sign(messages.survivors_statement(place.digest, sharers, event.survivors))
    )
    return ListConfirmed(place, state.deliveries, event.survivors, answer), (answer,)


def _confirm_again(state: ListConfirmed, event: Survivors, _tools: Tools) -> Result:
    _expect(event.survivors == state.survivors, "two different lists of survivors came")
    return state, (state.answer,)


def _disclose(state: ListConfirmed, event: Confirmations, tools: Tools) -> Result:
    place, quorum = state.place, state.place.terms.quorum(state.place.cohort)
    _expect(event.session == place.terms.session, "confirmations of another session came")
    signers = messages.members_of(event.signers, place.cohort)
    survivors = messages.members_of(state.survivors, place.cohort)
    signatures = messages.parts(event.signatures, SIGNATURE_BYTES, len(signers))
    _expect(
        len(signers) >= quorum and set(signers) <= set(survivors),
        f"expected signatures of {quorum} survivors, got {len(signers)}",
    )
    statement = messages.survivors_statement(place.digest, state.deliveries.sharers, state.survivors)
    enrolled = place.enrolled
    for member, signature in zip(signers, signatures, strict=True):
        signed = tools.primitives.verify(enrolled[member], signature, statement)
        _expect(signed, f"member {member} was told of other survivors")
    answer = Disclosure(place.terms.session, b"".join(_disclosed_shares(place, state.deliveries, survivors, tools)))
    return Disclosed(answer), (answer,)


def _disclosed_shares(
    place: Membership, deliveries: Deliveries, survivors: tuple[int, ...], tools: Tools
) -> Iterable[bytes]:
    peers = place.peers
    sealed = messages.parts(deliveries.sealed, messages.SEALED_SHARES_BYTES)
    for member, text in zip(_sharing_neighbours(place, deliveries), sealed, strict=True):
        try:
            both = tools.primitives.unseal(_seal_key(place, member, place.member, peers[member], tools), text)
        except RemoteProtocolError:  # its sender's fault; others may have its shares
            yield shamir.NO_SHARE
        else:
            yield both[shamir.SHARE_BYTES :] if member in survivors else both[: shamir.SHARE_BYTES]


def _disclose_again(state: Disclosed, _event: Confirmations, _tools: Tools) -> Result:
    return state, (state.answer,)


TABLE = table(_rows())


# --- secrets ---


def _channel_key(terms: Terms, seed: bytes, tools: Tools) -> bytes:
    return tools.primitives.derive(seed, b"channel" + terms.digest, KEY_BYTES)


def _mask_seed(terms: Terms, seed: bytes, tools: Tools) -> bytes:
    return tools.primitives.derive(seed, b"mask seed" + terms.digest, SEED_BYTES)


def _mask_key(terms: Terms, seed: bytes, tools: Tools) -> bytes:
    return masks.mask_key(_mask_seed(terms, seed, tools), tools.primitives)


def _self_seed(terms: Terms, seed: bytes, tools: Tools) -> bytes:
    return tools.primitives.derive(seed, b"self seed" + terms.digest, SEED_BYTES)
