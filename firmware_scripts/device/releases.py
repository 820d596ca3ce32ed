"""Which release of the agent runs: one small machine, in which a new release counts only once it was found healthy.

::

    Empty ──Offered──> Unpacking ──Unpacked──> Trying ──FoundHealthy──> Settled ──Offered──> Unpacking ...
                                                  └──FoundUnhealthy──> Settled on the release before

The record is stored before the effects of a step run, and each effect may run twice. After a power cut
:class:`DeviceStarted` puts right whatever was cut off, so it may come at any line. A release that was taken back is
written down with its reason and never tried again; the first release of all is never taken back, because there is
nothing to go back to, and what it lacks is mostly a network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Generic, TypeVar

from wire.crash_loop import CRASHES_ALLOWED
from wire.errors import RemoteProtocolError
from wire.machine import Row, find_row, table


def _rows() -> Iterable[Row[Step]]:
    """Every legal pair; a pair that is not here raises IllegalEvent."""
    return (
        _row(Empty, Offered, _take_first, Unpacking),
        _row(Empty, DeviceStarted, _stay, Empty),
        _row(Unpacking, Offered, _decline_busy, Unpacking),
        _row(Unpacking, Unpacked, _try, Trying),
        _row(Unpacking, UnpackFailed, _give_up, Empty, Settled),
        _row(Unpacking, DeviceStarted, _clean_up, Empty, Settled),
        _row(Trying, Offered, _replace_first, Trying, Unpacking),
        _row(Trying, FoundHealthy, _settle, Settled),
        _row(Trying, FoundUnhealthy, _take_back, Trying, Settled),
        _row(Trying, DeviceStarted, _try_again, Trying, Settled),
        _row(Settled, Offered, _consider, Unpacking, Settled),
        _row(Settled, DeviceStarted, _repair, Settled),
    )


@dataclass(frozen=True, slots=True)
class Empty:
    """No release is on the device."""


@dataclass(frozen=True, slots=True)
class Unpacking:
    """A release is being put beside the one that runs."""

    version: str
    previous: str | None


@dataclass(frozen=True, slots=True)
class Trying:
    """A release runs, and has to show that it is healthy; ``starts`` counts how often its trial began."""

    version: str
    previous: str | None
    starts: int = 1


@dataclass(frozen=True, slots=True)
class Settled:
    """This release counts."""

    version: str


State = Empty | Unpacking | Trying | Settled
S = TypeVar("S", bound=State, covariant=True)


@dataclass(frozen=True, slots=True)
class Record(Generic[S]):
    """What survives: the state, and every release that was taken back, with its reason."""

    state: S
    refused: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


# --- events ---


@dataclass(frozen=True, slots=True)
class Offered:
    """A bundle is here whose signature is good; ``present_is_well`` is whether the release that runs is healthy now."""

    version: str
    present_is_well: bool


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Every file of the release is on the disk."""


@dataclass(frozen=True, slots=True)
class UnpackFailed:
    """It could not be put there."""

    reason: str


@dataclass(frozen=True, slots=True)
class FoundHealthy:
    """The agent is up, connected, and has trained a step."""


@dataclass(frozen=True, slots=True)
class FoundUnhealthy:
    """It was not, within its time."""

    reason: str


@dataclass(frozen=True, slots=True)
class DeviceStarted:
    """The device started, or the process that drove this machine was killed and starts again."""


Event = Offered | Unpacked | UnpackFailed | FoundHealthy | FoundUnhealthy | DeviceStarted


# --- effects ---


@dataclass(frozen=True, slots=True)
class Unpack:
    """Put the offered release beside the others, then say :class:`Unpacked` or :class:`UnpackFailed`."""

    version: str


@dataclass(frozen=True, slots=True)
class Discard:
    """Remove what there is of a release."""

    version: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """Take units, launchers and this very program from a release; ``counts`` lets the agent start with the device."""

    version: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class PointTo:
    """Let ``current`` lead to a release, in one step."""

    version: str


@dataclass(frozen=True, slots=True)
class RestartAgent:
    """Run what ``current`` leads to, and nothing else any more; perhaps only if that has changed just now."""

    only_if_moved: bool = False


@dataclass(frozen=True, slots=True)
class CheckHealth:
    """Watch the agent, then say :class:`FoundHealthy` or :class:`FoundUnhealthy`."""

    version: str


@dataclass(frozen=True, slots=True)
class Prune:
    """Remove every release but these."""

    keep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tell:
    """Write this down where people look."""

    text: str


@dataclass(frozen=True, slots=True)
class Decline:
    """The offer is not taken; ``code`` is stable."""

    code: str
    text: str


Effect = Unpack | Discard | Adopt | PointTo | RestartAgent | CheckHealth | Prune | Tell | Decline
Step = tuple[Record[State], tuple[Effect, ...]]
StateT = TypeVar("StateT", bound=State)
EventT = TypeVar("EventT")


def _row(
    state: type[StateT],
    event: type[EventT],
    handle: Callable[[Record[StateT], EventT], Step],
    *leads_to: type[State],
) -> Row[Step]:
    """A row whose function takes the record around the state."""
    return Row(state, event, handle, frozenset(leads_to))


def step(record: Record[State], event: Event) -> Step:
    """One transition.

    Raises:
        IllegalEvent: there is none; the record stands.

    >>> before, _ = step(Record(Settled("0.1.0")), Offered("0.2.0", present_is_well=True))
    >>> before.state
    Unpacking(version='0.2.0', previous='0.1.0')
    >>> step(Record(Settled("0.2.0")), Offered("0.1.0", present_is_well=True))[1][0].code
    'downgrade'
    """
    state = record.state
    found = find_row(TABLE, type(state), type(event), lambda: f"releases, {type(state).__name__}")
    return found.handle(record, event)


def numbers(version: str) -> tuple[int, ...]:
    """A version in the order of releases.

    Raises:
        RemoteProtocolError: it is not ``major.minor.patch``.

    >>> numbers("0.10.0") > numbers("0.9.9")
    True
    """
    parts = version.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        msg = f"expected a version such as 1.2.3, got {version[:40]!r}"
        raise RemoteProtocolError(msg, code="version")
    return tuple(map(int, parts))


def running(state: State) -> str | None:
    """The release that ``current`` leads to, or should.

    >>> running(Trying("0.2.0", "0.1.0"))
    '0.2.0'
    """
    match state:
        case Empty():
            return None
        case Unpacking(_, previous):
            return previous
        case Trying(version) | Settled(version):
            return version


# --- rows ---


def _take_first(record: Record[Empty], event: Offered) -> Step:
    return Record(Unpacking(event.version, None), record.refused), (Unpack(event.version),)


def _consider(record: Record[Settled], event: Offered) -> Step:
    present, offered = record.state.version, event.version
    if offered in record.refused:
        return record, (Decline("refused-before", f"{offered} was taken back before: {record.refused[offered]}"),)
    if present == offered:
        return record, (Decline("there-already", f"{offered} is what runs"),)
    if numbers(offered) < numbers(present):
        return record, (Decline("downgrade", f"{offered} is older than {present}, which runs"),)
    if not event.present_is_well:
        # Else a broker that is down would speak against the new release.
        text = f"{present} is not well itself (see 'nightjar-device doctor'), so {offered} could not be judged: later"
        return record, (Decline("not-now", text),)
    return Record(Unpacking(offered, present), record.refused), (Unpack(offered),)


def _decline_busy(record: Record[Unpacking] | Record[Trying], event: Offered) -> Step:
    present = record.state.version
    if event.version == present:
        return record, (Decline("there-already", f"{present} is put in place and tried already"),)
    return record, (Decline("busy", f"{present} is on its way; {event.version} may come after it"),)


def _replace_first(record: Record[Trying], event: Offered) -> Step:
    state, offered = record.state, event.version
    if state.previous is not None or offered == state.version:
        return _decline_busy(record, event)
    if numbers(offered) < numbers(state.version):
        return record, (Decline("downgrade", f"{offered} is older than {state.version}, which is tried"),)
    # A first release that never becomes healthy would otherwise be the last one.
    return Record(Unpacking(offered, None), record.refused), (Unpack(offered),)


def _try(record: Record[Unpacking], _event: Unpacked) -> Step:
    state = record.state
    first = (Adopt(state.version, counts=False),) if state.previous is None else ()
    trial = Trying(state.version, state.previous)
    return Record(trial, record.refused), (*first, *_trial(trial))


def _trial(state: Trying) -> tuple[Effect, ...]:
    told = Tell(f"release {state.version} is tried")
    return PointTo(state.version), told, RestartAgent(), CheckHealth(state.version)


def _give_up(record: Record[Unpacking], event: UnpackFailed) -> Step:
    state = record.state
    back: State = Empty() if state.previous is None else Settled(state.previous)
    # Not written down as refused: a full disk is no fault of the release.
    text = f"release {state.version} could not be put in place: {event.reason}"
    return Record(back, record.refused), (Discard(state.version), Tell(text))


def _settle(record: Record[Trying], _event: FoundHealthy) -> Step:
    state = record.state
    keep = (state.version, state.previous) if state.previous else (state.version,)
    told = Tell(f"release {state.version} is healthy, and counts")
    return Record(Settled(state.version), record.refused), (Adopt(state.version), Prune(keep), told)


def _take_back(record: Record[Trying], event: FoundUnhealthy) -> Step:
    state = record.state
    if state.previous is None:
        text = f"release {state.version}, the first one, is not healthy yet: {event.reason}"
        return record, (Tell(text),)
    refused = MappingProxyType({**record.refused, state.version: event.reason})
    told = Tell(f"release {state.version} was taken back for {state.previous}: {event.reason}")
    return Record(Settled(state.previous), refused), (PointTo(state.previous), told, RestartAgent())


def _stay(record: Record[Empty], _event: DeviceStarted) -> Step:
    return record, ()


def _clean_up(record: Record[Unpacking], _event: DeviceStarted) -> Step:
    state = record.state
    if state.previous is None:
        return Record(Empty(), record.refused), (Discard(state.version),)
    return Record(Settled(state.previous), record.refused), (
        Discard(state.version),
        PointTo(state.previous),
        RestartAgent(only_if_moved=True),
    )


def _try_again(record: Record[Trying], _event: DeviceStarted) -> Step:
    state = record.state
    if state.previous is not None and state.starts >= CRASHES_ALLOWED:
        return _take_back(record, FoundUnhealthy(f"the device started {state.starts} times while it was tried"))
    trial = replace(state, starts=state.starts + 1)
    first = (Adopt(state.version, counts=False),) if state.previous is None else ()
    return Record(trial, record.refused), (*first, *_trial(trial))


def _repair(record: Record[Settled], _event: DeviceStarted) -> Step:
    version = record.state.version
    return record, (Adopt(version), PointTo(version), RestartAgent(only_if_moved=True))


TABLE = table(_rows())
