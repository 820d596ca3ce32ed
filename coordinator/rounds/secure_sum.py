"""The coordinator's side of a secure sum, as a state machine without I/O.

Theory of operation
===================

A session waits for one kind of message at a time, as the table in :mod:`nightjar.wire.secure_sum` says::

    KEYS -> SHARES -> REPORTS -> CONFIRMATIONS -> DISCLOSURES -> DONE

A phase ends when all that were asked have answered, or when its time is up and enough have (otherwise the session is
ABANDONED). Who has not answered by then has dropped out: it is not asked again, and its late messages change nothing.
Every message is checked when it comes, so that one device cannot make the others abort; a bad one is refused and its
sender counts as silent. When devices may have missed a message, it is sent again to those that have not answered.

Masked updates are not part of the state. :mod:`nightjar.coordinator.learning.summed` adds them up by the plan that the
last step gives::

    step(session, event, given) -> (session, effects)
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from nightjar.coordinator.rounds.seed_recovery import DisclosedShare, recovered
from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.machine import Row, find_row, row, table
from nightjar.wire.secure_sum import masks, messages, shamir
from nightjar.wire.secure_sum.graph import in_order, neighbours
from nightjar.wire.secure_sum.messages import (
    Confirmation,
    Confirmations,
    Deliveries,
    Disclosure,
    Down,
    MaskedUpdate,
    MemberKeys,
    Roster,
    Shares,
    Survivors,
    Up,
)
from nightjar.wire.secure_sum.primitives import KEY_BYTES, Primitives
from nightjar.wire.secure_sum.terms import Terms


def _rows() -> Iterable[Row[Step]]:
    """The legal (phase, event) pairs; any other pair raises IllegalEvent."""
    return (
        row(SumPhase.KEYS, MemberKeys, _take_keys, SumPhase.KEYS, SumPhase.SHARES),
        row(SumPhase.KEYS, TimeUp, _close_keys, SumPhase.SHARES, SumPhase.ABANDONED),
        row(SumPhase.SHARES, Shares, _take_shares, SumPhase.SHARES, SumPhase.REPORTS),
        row(SumPhase.SHARES, TimeUp, _close_shares, SumPhase.REPORTS, SumPhase.ABANDONED),
        row(SumPhase.REPORTS, MaskedUpdate, _take_report, SumPhase.REPORTS, SumPhase.CONFIRMATIONS),
        row(SumPhase.REPORTS, TimeUp, _close_reports, SumPhase.CONFIRMATIONS, SumPhase.ABANDONED),
        row(SumPhase.CONFIRMATIONS, Confirmation, _take_confirmation, SumPhase.CONFIRMATIONS, SumPhase.DISCLOSURES),
        row(SumPhase.CONFIRMATIONS, TimeUp, _close_confirmations, SumPhase.DISCLOSURES, SumPhase.ABANDONED),
        row(
            SumPhase.DISCLOSURES, Disclosure, _take_disclosure, SumPhase.DISCLOSURES, SumPhase.DONE, SumPhase.ABANDONED
        ),
        row(SumPhase.DISCLOSURES, TimeUp, _close_disclosures, SumPhase.DONE, SumPhase.ABANDONED),
        *(row(phase, MessagesLost, _ask_again, phase) for phase in ASKING),
        # Late, repeated or too early: of no use, and no defect of ours.
        *(row(phase, kind, _stay, phase) for phase in SumPhase for kind in _KINDS if _AWAITED.get(phase) is not kind),
    )


class SumPhase(enum.Enum):
    """What a session waits for."""

    KEYS = "keys"
    SHARES = "shares"
    REPORTS = "reports"
    CONFIRMATIONS = "confirmations"
    DISCLOSURES = "disclosures"
    DONE = "done"
    ABANDONED = "abandoned"


_KINDS: tuple[type[Up], ...] = (MemberKeys, Shares, MaskedUpdate, Confirmation, Disclosure)
ASKING = (SumPhase.SHARES, SumPhase.REPORTS, SumPhase.CONFIRMATIONS, SumPhase.DISCLOSURES)
"""Phases in which devices have something to answer."""
_AWAITED = dict(zip(SumPhase, _KINDS, strict=False))
_ANY_PRIVATE_KEY = b"\x01" * KEY_BYTES


class SumSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session.

    Attributes:
        invited: enrolled keys of the devices that may take part.
        keys: by enrolled key.
        roster: enrolled key of each member, once the keys are there.
        shares: by member; ``commitments`` to them as well.
        reports: signature of the sharers, by member that has reported.
        confirmations: signature of the survivors, by member.
        disclosures: disclosed shares, by member.
        reason: why it was abandoned, in words.
    """

    terms: Terms
    invited: tuple[bytes, ...]
    phase: SumPhase = SumPhase.KEYS
    keys: Mapping[bytes, MemberKeys] = {}
    roster: tuple[bytes, ...] = ()
    shares: Mapping[int, bytes] = {}
    commitments: Mapping[int, bytes] = {}
    reports: Mapping[int, bytes] = {}
    confirmations: Mapping[int, bytes] = {}
    disclosures: Mapping[int, bytes] = {}
    reason: str = ""

    def neighbours(self, member: int) -> tuple[int, ...]:
        """The member's neighbours, ascending."""
        return neighbours(member, len(self.roster), self.terms.degree(len(self.roster)))

    def sharing_neighbours(self, member: int) -> list[int]:
        """Those of the member's neighbours that have shared."""
        return [other for other in self.neighbours(member) if other in self.shares]

    @property
    def sharers(self) -> bytes:
        """Bitmap of the members that have shared."""
        return messages.bitmap(self.shares, len(self.roster))

    @property
    def survivors(self) -> bytes:
        """Bitmap of the members that have reported."""
        return messages.bitmap(self.reports, len(self.roster))

    @property
    def digest(self) -> bytes:
        """A hash of terms and roster."""
        return messages.roster_digest(self.terms, self.roster)


# Events: a device's message, or one of these.


@dataclass(frozen=True, slots=True)
class TimeUp:
    """The phase has lasted as long as it may."""


@dataclass(frozen=True, slots=True)
class MessagesLost:
    """Messages may have been lost."""


Event = Up | TimeUp | MessagesLost


@dataclass(frozen=True, slots=True)
class StepContext:
    """What comes with an event.

    Attributes:
        primitives: the cryptography.
        sender: enrolled key of the message's sender, which its connection has proved; empty if it is no message.
    """

    primitives: Primitives
    sender: bytes = b""


# Effects


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to a device."""

    receiver: bytes
    message: Down


@dataclass(frozen=True, slots=True)
class Refuse:
    """A device's message was bad and does not count."""

    sender: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Blame:
    """A device dealt or gave back wrong shares: no fewer colluders than the threshold could make it seem so."""

    sender: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class KeepValues:
    """Store the masked update of a member, durably, before the new state."""

    member: int
    values: bytes


class Unmask(msgspec.Struct, frozen=True, kw_only=True):
    """Add up the masked updates and remove these masks (:func:`nightjar.coordinator.learning.summed.unmasked_sum`).

    Attributes:
        members: those whose updates are in the sum.
        self_seeds: seeds of their self masks.
        dropped: seed of the mask key, and the mask keys of the neighbours that have reported, by dropped member.
    """

    terms: Terms
    members: tuple[int, ...]
    self_seeds: tuple[bytes, ...]
    dropped: Mapping[int, tuple[bytes, Mapping[int, bytes]]]


Effect = Send | Refuse | Blame | KeepValues | Unmask
Step = tuple[SumSession, tuple[Effect, ...]]


def open_session(terms: Terms, invited: Iterable[bytes]) -> SumSession:
    """Open a session.

    Raises:
        LocalProtocolError: too few devices for the terms, or too many for a quorum.
    """
    roster = in_order(terms.session, invited)
    if not terms.minimum <= len(roster) <= terms.largest_cohort:
        msg = f"the terms allow {terms.minimum} to {terms.largest_cohort} devices, got {len(roster)}"
        raise LocalProtocolError(msg)
    return SumSession(terms=terms, invited=roster)


def step(session: SumSession, event: Event, given: StepContext) -> Step:
    """Make one transition.

    Raises:
        IllegalEvent: the table has no such row.
    """
    matched = find_row(TABLE, session.phase, type(event), lambda: f"secure sum, {session.phase.value}")
    try:
        if not isinstance(event, TimeUp | MessagesLost) and event.session != session.terms.session:
            msg = "a message of another session"
            raise _refusal(msg)
        return matched.handle(session, event, given)
    except RemoteProtocolError as error:
        return session, (Refuse(given.sender, str(error)),)


def _refusal(message: str) -> RemoteProtocolError:
    return RemoteProtocolError(message, code="secure-sum")


def _stay(session: SumSession, _event: Event, _given: StepContext) -> Step:
    return session, ()


def _abandon(session: SumSession, reason: str) -> Step:
    return replace(session, phase=SumPhase.ABANDONED, reason=reason), ()


def _member(session: SumSession, sender: bytes, allowed: Iterable[int]) -> int:
    """The sender's place in the roster.

    Raises:
        RemoteProtocolError: it is not asked for this message.
    """
    member = session.roster.index(sender) if sender in session.roster else -1
    if member not in allowed:
        msg = "the sender has dropped out, or does not take part"
        raise _refusal(msg)
    return member


# --- asking ---


def _asked(session: SumSession) -> list[int]:
    """Members that have not answered in this phase."""
    asked, answered = {
        SumPhase.SHARES: (range(len(session.roster)), session.shares),
        SumPhase.REPORTS: (session.shares, session.reports),
        SumPhase.CONFIRMATIONS: (session.reports, session.confirmations),
        SumPhase.DISCLOSURES: (session.confirmations, session.disclosures),
    }[session.phase]
    return [member for member in sorted(asked) if member not in answered]


def _asking(session: SumSession) -> Step:
    """The session, and the questions of its phase to those that have not answered."""
    questions: Mapping[SumPhase, Callable[[SumSession, int], Down]] = {
        SumPhase.SHARES: _roster_for,
        SumPhase.REPORTS: _deliveries_for,
        SumPhase.CONFIRMATIONS: _survivors_for,
        SumPhase.DISCLOSURES: _confirmations_for,
    }
    question = questions[session.phase]
    return session, tuple(Send(session.roster[member], question(session, member)) for member in _asked(session))


def _ask_again(session: SumSession, _event: MessagesLost, _given: StepContext) -> Step:
    return _asking(session)


def _roster_for(session: SumSession, member: int) -> Roster:
    peers = [session.keys[session.roster[other]] for other in session.neighbours(member)]
    cut = b"".join(peer.channel + peer.mask + peer.signature for peer in peers)
    return Roster(session.terms.session, b"".join(session.roster), cut)


def _deliveries_for(session: SumSession, member: int) -> Deliveries:
    sealed = []
    for other in session.sharing_neighbours(member):
        sent = messages.parts(session.shares[other], messages.SEALED_SHARES_BYTES)
        sealed.append(sent[session.neighbours(other).index(member)])
    return Deliveries(session.terms.session, session.sharers, b"".join(sealed))


def _survivors_for(session: SumSession, member: int) -> Survivors:
    signatures = [session.reports[other] for other in session.neighbours(member) if other in session.reports]
    return Survivors(session.terms.session, session.survivors, b"".join(signatures))


def _confirmations_for(session: SumSession, _member: int) -> Confirmations:
    signers = sorted(session.confirmations)[: session.terms.quorum(len(session.roster))]
    signatures = b"".join(session.confirmations[signer] for signer in signers)
    return Confirmations(session.terms.session, messages.bitmap(signers, len(session.roster)), signatures)


# --- answers ---


def _take_keys(session: SumSession, keys: MemberKeys, given: StepContext) -> Step:
    if given.sender not in session.invited:
        msg = "the sender was not invited"
        raise _refusal(msg)
    statement = messages.keys_statement(session.terms, keys.channel, keys.mask)
    if not given.primitives.verify(given.sender, keys.signature, statement):
        msg = "the keys are not signed by their sender"
        raise _refusal(msg)
    for public in (keys.channel, keys.mask):  # a key that leads to no secret would make its neighbours abort
        given.primitives.agree(_ANY_PRIVATE_KEY, public)
    if given.sender in session.keys:
        return session, ()
    session = replace(session, keys={**session.keys, given.sender: keys})
    return _close_keys(session) if len(session.keys) == len(session.invited) else (session, ())


def _close_keys(session: SumSession, *_: object) -> Step:
    if len(session.keys) < session.terms.minimum:
        return _abandon(session, f"{len(session.keys)} of {len(session.invited)} devices sent keys")
    return _asking(replace(session, phase=SumPhase.SHARES, roster=in_order(session.terms.session, session.keys)))


def _take_shares(session: SumSession, shares: Shares, given: StepContext) -> Step:
    member = _member(session, given.sender, range(len(session.roster)))
    messages.parts(shares.sealed, messages.SEALED_SHARES_BYTES, len(session.neighbours(member)))
    messages.parts(shares.commitments, 2 * messages.COMMITMENT_BYTES, len(session.neighbours(member)))
    if member in session.shares:
        return session, ()
    committed = {**session.commitments, member: shares.commitments}
    session = replace(session, shares={**session.shares, member: shares.sealed}, commitments=committed)
    return (session, ()) if _asked(session) else _close_shares(session)


def _close_shares(session: SumSession, *_: object) -> Step:
    if len(session.shares) < session.terms.minimum:
        return _abandon(session, f"{len(session.shares)} of {len(session.roster)} devices sent shares")
    return _asking(replace(session, phase=SumPhase.REPORTS))


def _take_report(session: SumSession, report: MaskedUpdate, given: StepContext) -> Step:
    member = _member(session, given.sender, session.shares)
    if len(report.values) != masks.packed_bytes(session.terms):
        msg = f"expected a masked update of {masks.packed_bytes(session.terms)} bytes, got {len(report.values)}"
        raise _refusal(msg)
    statement = messages.sharers_statement(session.digest, session.sharers)
    if not given.primitives.verify(given.sender, report.signature, statement):
        msg = "the list of sharers is not signed by the sender"
        raise _refusal(msg)
    if member in session.reports:
        return session, ()
    session = replace(session, reports={**session.reports, member: report.signature})
    following, effects = (session, ()) if _asked(session) else _close_reports(session)
    return following, (KeepValues(member, report.values), *effects)


def _close_reports(session: SumSession, *_: object) -> Step:
    if len(session.reports) < session.terms.minimum:
        return _abandon(session, f"{len(session.reports)} of {len(session.roster)} devices reported")
    return _asking(replace(session, phase=SumPhase.CONFIRMATIONS))


def _take_confirmation(session: SumSession, confirmation: Confirmation, given: StepContext) -> Step:
    member = _member(session, given.sender, session.reports)
    statement = messages.survivors_statement(session.digest, session.sharers, session.survivors)
    if not given.primitives.verify(given.sender, confirmation.signature, statement):
        msg = "the list of survivors is not signed by the sender"
        raise _refusal(msg)
    session = replace(session, confirmations={**session.confirmations, member: confirmation.signature})
    return (session, ()) if _asked(session) else _close_confirmations(session)


def _close_confirmations(session: SumSession, *_: object) -> Step:
    quorum = session.terms.quorum(len(session.roster))
    if len(session.confirmations) < quorum:
        return _abandon(session, f"{len(session.confirmations)} devices confirmed, {quorum} are needed")
    return _asking(replace(session, phase=SumPhase.DISCLOSURES))


def _take_disclosure(session: SumSession, disclosure: Disclosure, given: StepContext) -> Step:
    member = _member(session, given.sender, session.confirmations)
    messages.parts(disclosure.shares, shamir.SHARE_BYTES, len(session.sharing_neighbours(member)))
    session = replace(session, disclosures={**session.disclosures, member: disclosure.shares})
    return (session, ()) if _asked(session) else _close_disclosures(session, TimeUp(), given)


def _close_disclosures(session: SumSession, _event: TimeUp, given: StepContext) -> Step:
    def fits(member: int, seed: bytes) -> bool:
        return _fits(session, member, seed, given.primitives)

    found = recovered(_disclosed(session), session.terms.threshold, fits)
    blames = tuple(Blame(session.roster[member], why) for member, why in sorted(found.blamed.items()))
    if found.missing:
        members = ", ".join(f"{member} ({held})" for member, held in sorted(found.missing.items()))
        reason = (
            f"a seed cannot be found: of these members so many right shares were disclosed, {session.terms.threshold} "
            f"are needed: {members}"
        )
        abandoned, _ = _abandon(session, reason)
        return abandoned, blames
    return replace(session, phase=SumPhase.DONE), (*blames, _plan(session, found.seeds))


# --- seeds ---


def _disclosed(session: SumSession) -> Iterable[DisclosedShare]:
    """The shares that were given back, and whether each is what its dealer committed to."""
    digest = session.digest
    for member, data in session.disclosures.items():
        cut = messages.parts(data, shamir.SHARE_BYTES)
        for dealer, share in zip(session.sharing_neighbours(member), cut, strict=True):
            both = messages.parts(session.commitments[dealer], 2 * messages.COMMITMENT_BYTES)
            committed = both[session.neighbours(dealer).index(member)]
            half = committed[messages.COMMITMENT_BYTES :] if dealer in session.reports else committed
            fits = messages.share_commitment(digest, dealer, member, share) == half[: messages.COMMITMENT_BYTES]
            yield DisclosedShare(dealer, member, share, right=fits and shamir.is_share(share))
    for dealer in session.shares:  # so that one of whom nothing was disclosed is missing, too
        yield DisclosedShare(dealer, dealer, b"", right=None)


def _fits(session: SumSession, member: int, seed: bytes, primitives: Primitives) -> bool:
    """Whether a seed is that of a member: of its self mask if it has reported, else of its mask key."""
    keys = session.keys[session.roster[member]]
    if member in session.reports:
        return masks.commitment(seed, primitives) == keys.commitment
    return primitives.public_key(masks.mask_key(seed, primitives)) == keys.mask


def _plan(session: SumSession, seeds: Mapping[int, bytes]) -> Unmask:
    """Which masks to remove."""
    survivors = tuple(sorted(session.reports))
    mask_keys = {member: session.keys[key].mask for member, key in enumerate(session.roster)}
    dropped = {
        member: (
            seed,
            {other: mask_keys[other] for other in session.neighbours(member) if other in session.reports},
        )
        for member, seed in sorted(seeds.items())
        if member not in session.reports
    }
    self_seeds = tuple(seeds[member] for member in survivors)
    return Unmask(terms=session.terms, members=survivors, self_seeds=self_seeds, dropped=dropped)


TABLE = table(_rows())
