"""A hand-over between two hosts of one database within a round, for the explorer.

The round is the product's machine (:mod:`nightjar.coordinator.rounds.synchronous`), and so are its effects. Around it
is what :mod:`nightjar.coordinator.storage.fencing` says: a host reads the round when its term begins, a transaction
stores state, reports and effects together if its term is still the last one, receipts go out after it, and a host that
froze anywhere goes on as if nothing had been. Devices send a report again until its receipt comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from nightjar.coordinator.rounds.events import (
    AggregationFinished,
    AssignDevice,
    DeviceCheckedIn,
    Effect,
    KeepReport,
    ReportReceived,
    SendReceipt,
    StartAggregation,
)
from nightjar.coordinator.rounds.round import Phase, Round, open_round
from nightjar.coordinator.rounds.rules import RoundRules
from nightjar.coordinator.rounds.synchronous import step
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Verdict

DEVICES = tuple(DeviceId(name) for name in ("a", "b", "c"))
NOW_S = 1000.0
_ROUND = msgspec.msgpack.Decoder(Round)


class Transaction(NamedTuple):
    """What a host is about to commit: the round after an event, and what is stored or done with it."""

    state: bytes
    kept: tuple[DeviceId, ...] = ()
    receipts: tuple[tuple[DeviceId, Verdict], ...] = ()
    averaged: frozenset[DeviceId] | None = None  # the reports in the version that it publishes


class Host(NamedTuple):
    """One host. ``term`` is 0 before it has led and after it noticed that it no longer does."""

    term: int = 0
    state: bytes = b""
    pending: Transaction | None = None
    sending: tuple[tuple[DeviceId, Verdict], ...] = ()
    averaging: frozenset[DeviceId] | None = None


class World(NamedTuple):
    """The database, the hosts and what devices heard."""

    state: bytes
    term: int = 0
    kept: frozenset[DeviceId] = frozenset()
    versions: tuple[frozenset[DeviceId], ...] = ()
    hosts: tuple[Host, ...] = (Host(), Host())
    heard: frozenset[tuple[DeviceId, Verdict]] = frozenset()


class HandOver:
    """The moves; ``fenced`` is whether a transaction checks its term, as all do."""

    def __init__(self, *, fenced: bool = True, most_terms: int = 3) -> None:
        self._fenced, self._most_terms = fenced, most_terms

    def start(self) -> World:
        """A round of three selected devices, of which two are to report; nobody leads yet."""
        rules = RoundRules(
            goal=2, minimum=2, over_selection=1.5, selection_window_s=0.0, selection_deadline_s=60.0,
            report_deadline_s=600.0, lost_grace_s=10.0, commit_deadline_s=7200.0,
        )  # fmt: skip
        state = open_round(1, 0, rules, 7, NOW_S)
        for device in DEVICES:
            state, _ = step(state, DeviceCheckedIn(device, NOW_S + 1))
        assert len(state.seats) == len(DEVICES), state.phase
        return World(msgspec.msgpack.encode(state))

    def moves(self, world: World) -> Iterator[tuple[str, World]]:
        """All that may happen next."""
        for number, host in enumerate(world.hosts):
            if world.term < self._most_terms and not (host.term and host.term == world.term):
                lead = Host(world.term + 1, world.state)
                yield f"host {number} leads", _with(world._replace(term=world.term + 1), number, lead)
            for name, after in self._of_host(number, host, world):
                yield f"host {number}: {name}", after

    def _of_host(self, number: int, host: Host, world: World) -> Iterator[tuple[str, World]]:
        if host.sending:
            device, verdict = host.sending[0]
            sent = world._replace(heard=world.heard | {(device, verdict)})
            yield f"receipt for {device} arrives", _with(sent, number, host._replace(sending=host.sending[1:]))
            yield f"receipt for {device} is lost", _with(world, number, host._replace(sending=host.sending[1:]))
        elif host.pending is not None:
            yield "commit", self._commit(number, host, host.pending, world)
        elif host.term:
            state = _ROUND.decode(host.state)
            for device in DEVICES:
                if not any(who == device for who, _ in world.heard) and world.state:
                    event = ReportReceived(device, 1, NOW_S + 2)
                    yield f"a report of {device}", _with(world, number, _computed(host, *step(state, event)))
            if state.phase is Phase.COMMITTING and host.averaging is None:
                read = frozenset(device for device in world.kept if device in state.seats)
                yield "averages what is stored", _with(world, number, host._replace(averaging=read))
            if state.phase is Phase.COMMITTING and host.averaging is not None:
                after, effects = step(state, AggregationFinished(1, NOW_S + 3))
                yield "the version is there", _with(world, number, _computed(host, after, effects, host.averaging))

    def _commit(self, number: int, host: Host, pending: Transaction, world: World) -> World:
        if self._fenced and host.term != world.term:
            return _with(world, number, Host())  # it ends at once, and may lead again
        published = () if pending.averaged is None else (pending.averaged,)
        stored = world._replace(
            state=pending.state, kept=world.kept | set(pending.kept), versions=(*world.versions, *published)
        )
        after = host._replace(state=pending.state, pending=None, sending=pending.receipts)
        return _with(stored, number, after)


def rules() -> dict[str, Callable[[World], bool]]:
    """What must hold in every world, in words."""

    def one_version(world: World) -> bool:
        return len(world.versions) <= 1

    def accepted(world: World) -> set[DeviceId]:
        return {device for device, verdict in world.heard if verdict is Verdict.ACCEPTED}

    def averaged(world: World) -> bool:
        return all(accepted(world) <= version for version in world.versions)

    def stored(world: World) -> bool:
        return accepted(world) <= world.kept

    def same_round(world: World) -> bool:
        state = _ROUND.decode(world.state)
        return state.phase is Phase.COMMITTED or not world.versions

    return {
        "a round makes one version": one_version,
        "a device that heard that its report counts has it stored": stored,
        "a device that heard that its report counts has it in the version": averaged,
        "a round that has made its version stays committed": same_round,
    }


def _computed(
    host: Host, after: Round, effects: tuple[Effect, ...], averaged: frozenset[DeviceId] | None = None
) -> Host:
    kept = tuple(each.device for each in effects if isinstance(each, KeepReport))
    receipts = tuple((each.device, each.verdict) for each in effects if isinstance(each, SendReceipt))
    assert all(isinstance(each, KeepReport | SendReceipt | StartAggregation | AssignDevice) for each in effects)
    return host._replace(pending=Transaction(msgspec.msgpack.encode(after), kept, receipts, averaged))


def _with(world: World, number: int, host: Host) -> World:
    return world._replace(hosts=tuple(host if n == number else each for n, each in enumerate(world.hosts)))
