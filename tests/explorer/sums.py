"""A secure sum of four devices under a coordinator that lies, and devices that lie with it, for the explorer.

The honest devices are the machines of the agent (:mod:`nightjar.edge_agent.core.secure_sum`), with cryptography that is
as quick as it is weak: what the coordinator can learn is worked out from who disclosed what to whom, not by breaking
it. The coordinator sends each device any roster, list of sharers and list of survivors for which it has the signatures
that the device asks for; other messages only make a device give up. Liars sign everything, and tell it all they know.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, combinations
from typing import NamedTuple

import msgspec
import numpy as np

from nightjar.edge_agent.core import secure_sum as device
from nightjar.edge_agent.core.secure_sum import Tools, UpdateEncoded
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.secure_sum import messages
from nightjar.wire.secure_sum.graph import in_order
from nightjar.wire.secure_sum.messages import Confirmations, Deliveries, MemberKeys, Roster, Survivors
from nightjar.wire.secure_sum.primitives import ENROLLED_BYTES, SIGNATURE_BYTES
from nightjar.wire.secure_sum.terms import Terms, honest_devices

DEVICES = 4
_PRIME = 2**127 - 1


class QuickPrimitives:
    """The port of cryptography by toys; the same functions of the same arguments, and nothing secret about them."""

    def public_key(self, private: bytes) -> bytes:
        return pow(3, int.from_bytes(private, "little"), _PRIME).to_bytes(32, "little")

    def agree(self, private: bytes, public: bytes) -> bytes:
        exponent, base = int.from_bytes(private, "little"), int.from_bytes(public, "little")
        return pow(base, exponent, _PRIME).to_bytes(32, "little")

    def derive(self, secret: bytes, context: bytes, size: int) -> bytes:
        return hashlib.blake2b(secret + context, digest_size=size).digest()

    def expand(self, seed: bytes, size: int) -> bytes:
        return hashlib.shake_128(seed).digest(size)

    def seal(self, key: bytes, text: bytes) -> bytes:
        return text + self.derive(key, text, 16)

    def unseal(self, key: bytes, sealed: bytes) -> bytes:
        if self.derive(key, sealed[:-16], 16) != sealed[-16:]:
            msg = "sealed under another key"
            raise RemoteProtocolError(msg, code="secure-sum")
        return sealed[:-16]

    def verify(self, enrolled: bytes, signature: bytes, signed: bytes) -> bool:
        return signature == signed_by(enrolled, signed)


def signed_by(enrolled: bytes, statement: bytes) -> bytes:
    """The signature of the owner of a key; the model asks for one only where its owner gave it, or lies."""
    return hashlib.blake2b(enrolled + statement, digest_size=SIGNATURE_BYTES).digest()


KEYS = tuple(bytes([2, number]) * 16 + b"k" for number in range(DEVICES))
TOOLS = tuple(Tools(QuickPrimitives(), lambda statement, own=key: signed_by(own, statement)) for key in KEYS)


class Local(NamedTuple):
    """An honest device, and what it has said so far; devices are named by their number here, not by their place.

    Attributes:
        state: of its machine.
        sharers: whom it masked its update with, itself among them; None before.
        opened: the survivors for whom it disclosed shares; None before.
        genuine: those of the sharers whose shares for it came as they had sealed them.
    """

    state: device.State
    digest: bytes = b""
    roster: frozenset[int] = frozenset()
    sharers: frozenset[int] | None = None
    reported: bytes = b""
    genuine: frozenset[int] = frozenset()
    confirmed: bytes = b""
    opened: frozenset[int] | None = None


World = tuple[Local, ...]


class LyingCoordinator:
    """The moves of a coordinator.

    Args:
        orders: what each honest device was told to do; the liars come after them.
        terms: the terms of the session that follows from each order.
    """

    def __init__(self, orders: str, terms: dict[str, Terms]) -> None:
        _stepped.cache_clear()  # a test may have changed the machine
        self.orders, self.terms = orders, terms
        self.honest = range(len(orders))
        self.liars = range(len(orders), DEVICES)
        self.joined = [self._join(number, self.terms[order]) for number, order in enumerate(orders)]
        of_liars = [(terms[order], number) for order in set(orders) for number in self.liars]
        self.member_keys = {(each, number): self._join(number, each)[1] for each, number in of_liars}
        self.member_keys |= {(terms[order], n): self.joined[n][1] for n, order in enumerate(orders)}

    def start(self) -> World:
        """All have joined."""
        return tuple(Local(state) for state, _ in self.joined)

    def moves(self, world: World) -> Iterator[tuple[str, World]]:
        """Each message that makes some device go on."""
        for number in self.honest:
            for name, after in self._of_one(number, world):
                yield f"{name} to {number}", (*world[:number], after, *world[number + 1 :])

    def _join(self, number: int, terms: Terms) -> tuple[device.State, MemberKeys]:
        state, (keys,) = device.join(terms, bytes([number]) * 32, KEYS[number], TOOLS[number])
        assert isinstance(keys, MemberKeys)
        return state, keys

    def _of_one(self, number: int, world: World) -> Iterator[tuple[str, Local]]:
        local, terms = world[number], self.terms[self.orders[number]]
        others = frozenset(range(DEVICES)) - {number}
        match local.state:
            case device.Joined():
                for chosen in _sets(others, terms.minimum - 1):
                    members = chosen | {number}
                    state = _stepped(number, local.state, self._roster(terms, members, number))
                    if isinstance(state, device.Sharing):
                        yield f"roster {sorted(members)}", Local(state, state.place.digest, members)
            case device.Sharing():
                for chosen in _sets(local.roster - {number}, terms.minimum - 1):
                    yield self._deliver(number, chosen | {number}, world)
            case device.Masked():
                assert local.sharers is not None
                for chosen in _sets(local.sharers - {number}, terms.minimum - 1):
                    yield from self._list(number, chosen | {number}, world)
            case device.ListConfirmed():
                yield from self._disclose(number, world)

    def _roster(self, terms: Terms, members: frozenset[int], number: int) -> Roster:
        ordered = in_order(terms.session, [KEYS[member] for member in members])
        peers = [_number(key) for key in ordered if key != KEYS[number]]
        # Whoever was told other orders has keys of another session, if the orders are bound to it.
        keys = [self.member_keys.get((terms, peer)) or self.joined[peer][1] for peer in peers]
        cut = b"".join(each.channel + each.mask + each.signature for each in keys)
        return Roster(terms.session, b"".join(ordered), cut)

    def _deliver(self, number: int, sharers: frozenset[int], world: World) -> tuple[str, Local]:
        local = world[number]
        state = local.state
        assert isinstance(state, device.Sharing)
        ordered = [_number(key) for key in state.place.enrolled]
        sealed, genuine = [], set()
        for other in (each for each in ordered if each in sharers and each != number):
            theirs = world[other].state if other in self.honest else None
            text = bytes(messages.SEALED_SHARES_BYTES)
            if isinstance(theirs, device.Sharing | device.Masked) and world[other].digest == local.digest:
                text = _sealed_for(other, theirs.place, number)
                genuine.add(other)
            sealed.append(text)
        bits = messages.bitmap([ordered.index(each) for each in sharers], len(ordered))
        ready = _stepped(number, state, Deliveries(state.place.terms.session, bits, b"".join(sealed)))
        masked, report = _masked(number, ready)
        after = local._replace(state=masked, sharers=sharers, reported=report, genuine=frozenset(genuine))
        return f"sharers {sorted(sharers)}", after

    def _list(self, number: int, survivors: frozenset[int], world: World) -> Iterator[tuple[str, Local]]:
        local = world[number]
        state = local.state
        assert isinstance(state, device.Masked)
        ordered = [_number(key) for key in state.place.enrolled]
        statement = messages.sharers_statement(local.digest, state.deliveries.sharers)
        signatures = []
        for other in (each for each in ordered if each in survivors and each != number):
            genuine = signed_by(KEYS[other], statement)
            if other in self.honest and world[other].reported != genuine:
                return  # nobody has that signature
            signatures.append(genuine)
        bits = messages.bitmap([ordered.index(each) for each in survivors], len(ordered))
        following = _stepped(number, state, Survivors(state.place.terms.session, bits, b"".join(signatures)))
        if isinstance(following, device.ListConfirmed):
            after = local._replace(state=following, confirmed=following.answer.signature)
            yield f"survivors {sorted(survivors)}", after

    def _disclose(self, number: int, world: World) -> Iterator[tuple[str, Local]]:
        local = world[number]
        state = local.state
        assert isinstance(state, device.ListConfirmed)
        place, ordered = state.place, [_number(key) for key in state.place.enrolled]
        statement = messages.survivors_statement(local.digest, state.deliveries.sharers, state.survivors)
        survivors = [ordered[member] for member in messages.members_of(state.survivors, place.cohort)]
        signers = [
            ordered.index(each)
            for each in survivors
            if each in self.liars or world[each].confirmed == signed_by(KEYS[each], statement)
        ]
        signatures = b"".join(signed_by(KEYS[ordered[member]], statement) for member in sorted(signers))
        asked = Confirmations(place.terms.session, messages.bitmap(signers, place.cohort), signatures)
        following = _stepped(number, state, asked)
        if isinstance(following, device.Disclosed):
            yield f"confirmations for {survivors}", local._replace(state=following, opened=frozenset(survivors))

    # --- what it knows ---

    def open_sums(self, world: World) -> list[frozenset[int]]:
        """Honest devices whose sum the coordinator can work out: each such set that has no smaller one in it."""
        reported = [number for number in self.honest if world[number].sharers is not None]
        found: list[frozenset[int]] = []
        for chosen in _sets(frozenset(reported), 1):
            if not any(smaller <= chosen for smaller in found) and self._opens(chosen, world):
                found.append(chosen)
        return found

    def _opens(self, chosen: frozenset[int], world: World) -> bool:
        return all(
            self._has(number, world, survived=True)
            and all(self._removable(number, other, chosen, world) for other in (world[number].sharers or ()))
            for number in chosen
        )

    def _removable(self, number: int, other: int, chosen: frozenset[int], world: World) -> bool:
        """Whether the mask that a device has with another is no obstacle."""
        if other == number or other in self.liars or self._has(number, world, survived=False):
            return True
        if self.terms[self.orders[other]] == self.terms[self.orders[number]]:
            cancels = other in chosen and number in (world[other].sharers or ())
            return cancels or self._has(other, world, survived=False)
        return False

    def _has(self, number: int, world: World, *, survived: bool) -> bool:
        """Whether enough shares of a device's seed are there: of its self mask, or of its mask key."""
        own = world[number]
        from_liars = len(own.roster & frozenset(self.liars))
        told = sum(
            each.opened is not None and number in each.genuine and (number in each.opened) is survived for each in world
        )
        return from_liars + told >= self.terms[self.orders[number]].threshold


def rules(coordinator: LyingCoordinator) -> dict[str, object]:
    """What must hold in every world, in words."""
    terms = coordinator.terms[coordinator.orders[0]]
    fewest = honest_devices(terms.minimum, terms.threshold)

    def enough(world: World) -> bool:
        return all(len(each) >= fewest for each in coordinator.open_sums(world))

    def alike(world: World) -> bool:
        return all(len({coordinator.orders[number] for number in each}) == 1 for each in coordinator.open_sums(world))

    def one_list(world: World) -> bool:
        return len({each.opened for each in world if each.opened is not None}) <= 1

    return {
        f"what comes open is a sum of at least {fewest} honest devices": enough,
        "the devices of a sum were all given the same orders": alike,
        "no two devices disclosed for different lists of survivors": one_list,
    }


def _sets(members: Iterable[int], least: int) -> Iterator[frozenset[int]]:
    ordered = sorted(members)
    sizes = range(max(least, 0), len(ordered) + 1)
    return map(frozenset, chain.from_iterable(combinations(ordered, size) for size in sizes))


def _number(key: bytes) -> int:
    return KEYS.index(key)


@cache
def _stepped(number: int, state: device.State, event: device.Event) -> device.State:
    return device.step(state, event, TOOLS[number])[0]


@cache
def _masked(number: int, state: device.State) -> tuple[device.State, bytes]:
    """The device has trained meanwhile; the state, and its signature of the sharers."""
    assert isinstance(state, device.Ready), state
    update = UpdateEncoded(np.full(state.place.terms.values, number + 1, np.uint32))
    masked, (report,) = device.step(state, update, TOOLS[number])
    return masked, msgspec.structs.asdict(report)["signature"]


@cache
def _sealed_for(number: int, place: device.Membership, receiver: int) -> bytes:
    texts = [text for text, _ in device._dealt_shares(place, TOOLS[number])]
    ordered = [_number(key) for key in messages.parts(place.roster.enrolled, ENROLLED_BYTES)]
    return texts[place.neighbours.index(ordered.index(receiver))]
