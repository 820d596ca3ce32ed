"""The state machine of the agent's releases: a new release settles only after it was found healthy.

::

    Empty ──Offered──> Unpacking ──Unpacked──> Trying ──FoundHealthy──> Settled ──Offered──> Unpacking ...
                                                  │                        └──ReleaseWithdrawn──> Settled (before)
                                                  └──FoundUnhealthy──> Settled (on the release before)

The record is stored before the effects of a step run, and each effect may run twice. :class:`DeviceStarted` repairs
whatever a power cut interrupted, so power may be cut at any line. A release that was rolled back is recorded with the
reason and never tried again. The very first release is never rolled back, because there is nothing to go back to and
usually only the network is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Generic, TypeVar

from nightjar.wire.crash_loop import CRASHES_ALLOWED
from nightjar.wire.machine import Row, find_row, table
from nightjar.wire.release_version import numbers


def _rows() -> Iterable[Row[Step]]:
    """Every legal pair of state and event; any other pair raises IllegalEvent."""
    return (
        _row(Empty, Offered, _take_first, Unpacking),
        _row(Empty, DeviceStarted, _stay, Empty),
        _row(Unpacking, Offered, _decline_busy, Unpacking),
        _row(Unpacking, Unpacked, _try, Trying),
        _row(Unpacking, UnpackFailed, _give_up, Empty, Settled),
        _row(Unpacking, DeviceStarted, _clean_up, Empty, Settled),
        _row(Trying, Offered, _replace_first, Trying, Unpacking),
        _row(Trying, FoundHealthy, _accept, Settled),
        _row(Trying, FoundUnhealthy, _take_back, Trying, Settled),
        _row(Trying, DeviceStarted, _try_again, Trying, Settled),
        _row(Settled, Offered, _consider, Unpacking, Settled),
        _row(Settled, DeviceStarted, _repair, Settled),
        _row(Settled, ReleaseWithdrawn, _withdraw, Settled),
    )


@dataclass(frozen=True, slots=True)
class Empty:
    """No release is installed."""


@dataclass(frozen=True, slots=True)
class Unpacking:
    """A release is being unpacked beside the running one."""

    version: str
    previous: str | None


@dataclass(frozen=True, slots=True)
class Trying:
    """A release runs on trial and has to prove healthy; ``starts`` counts how often its trial began."""

    version: str
    previous: str | None
    starts: int = 1


@dataclass(frozen=True, slots=True)
class Settled:
    """A release was found healthy and is in use; ``previous`` is the one before, if it is still on the disk."""

    version: str
    previous: str | None = None


State = Empty | Unpacking | Trying | Settled
S = TypeVar("S", bound=State, covariant=True)


@dataclass(frozen=True, slots=True)
class Record(Generic[S]):
    """The persistent record: the state, and the reason for every release that was rolled back."""

    state: S
    refused: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


# --- events ---


@dataclass(frozen=True, slots=True)
class Offered:
    """A bundle with a valid signature is offered; ``present_is_well`` is whether the running release is healthy."""

    version: str
    present_is_well: bool


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Every file of the release is on the disk."""


@dataclass(frozen=True, slots=True)
class UnpackFailed:
    """The release could not be unpacked; ``lasting`` if its bundle is the reason, and not a full disk, say."""

    reason: str
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class FoundHealthy:
    """The agent is up and connected, and has trained a step."""


@dataclass(frozen=True, slots=True)
class FoundUnhealthy:
    """The agent did not become healthy in time."""

    reason: str


@dataclass(frozen=True, slots=True)
class DeviceStarted:
    """The device booted, or the process that drives this state machine was killed and restarted."""


@dataclass(frozen=True, slots=True)
class ReleaseWithdrawn:
    """The coordinator took a release back."""

    version: str
    reason: str


Event = Offered | Unpacked | UnpackFailed | FoundHealthy | FoundUnhealthy | DeviceStarted | ReleaseWithdrawn


# --- effects ---


@dataclass(frozen=True, slots=True)
class Unpack:
    """Unpack the offered release beside the others, then report :class:`Unpacked` or :class:`UnpackFailed`."""

    version: str


@dataclass(frozen=True, slots=True)
class Discard:
    """Remove all files of a release."""

    version: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """Install units, launchers and this program from a release; ``counts`` enables the agent at boot."""

    version: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class PointTo:
    """Point ``current`` to a release, atomically."""

    version: str


@dataclass(frozen=True, slots=True)
class RestartAgent:
    """Restart the agent from ``current``; with ``only_if_moved``, only if ``current`` has changed."""

    only_if_moved: bool = False


@dataclass(frozen=True, slots=True)
class CheckHealth:
    """Watch the agent, then report :class:`FoundHealthy` or :class:`FoundUnhealthy`."""

    version: str


@dataclass(frozen=True, slots=True)
class Prune:
    """Remove every release except those to keep."""

    keep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tell:
    """Write a text to the log and the status file."""

    text: str


@dataclass(frozen=True, slots=True)
class Decline:
    """Decline the offer; the meaning of ``code`` is stable."""

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
    """Make a row whose function takes the whole record."""
    return Row(state, event, handle, frozenset(leads_to))


def step(record: Record[State], event: Event) -> Step:
    """Compute one transition.

    Raises:
        IllegalEvent: there is no transition for this pair; the record is unchanged.

    >>> before, _ = step(Record(Settled("0.1.0")), Offered("0.2.0", present_is_well=True))
    >>> before.state
    Unpacking(version='0.2.0', previous='0.1.0')
    >>> step(Record(Settled("0.2.0")), Offered("0.1.0", present_is_well=True))[1][0].code
    'downgrade'
    """
    state = record.state
    row = find_row(TABLE, type(state), type(event), lambda: f"releases, {type(state).__name__}")
    return row.handle(record, event)


def running(state: State) -> str | None:
    """The release that ``current`` points to, or should.

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
        # Otherwise a broker that is down would count against the new release.
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
    # Otherwise a first release that never becomes healthy could not be replaced.
    return Record(Unpacking(offered, None), record.refused), (Unpack(offered),)


def _try(record: Record[Unpacking], _event: Unpacked) -> Step:
    state = record.state
    first = (Adopt(state.version, counts=False),) if state.previous is None else ()
    trial = Trying(state.version, state.previous)
    return Record(trial, record.refused), (*first, *_trial(trial))


def _trial(state: Trying) -> tuple[Effect, ...]:
    message = Tell(f"release {state.version} is tried")
    return PointTo(state.version), message, RestartAgent(), CheckHealth(state.version)


def _give_up(record: Record[Unpacking], event: UnpackFailed) -> Step:
    state = record.state
    back: State = Empty() if state.previous is None else Settled(state.previous)
    # Not recorded as refused: a full disk is not the release's fault, and its bundle may be made again.
    text = f"release {state.version} could not be put in place: {event.reason}"
    told = Decline("unusable", text) if event.lasting else Tell(text)
    return Record(back, record.refused), (Discard(state.version), told)


def _accept(record: Record[Trying], _event: FoundHealthy) -> Step:
    state = record.state
    keep = (state.version, state.previous) if state.previous else (state.version,)
    message = Tell(f"release {state.version} is healthy, and counts")
    settled = Settled(state.version, state.previous)
    return Record(settled, record.refused), (Adopt(state.version), Prune(keep), message)


def _take_back(record: Record[Trying], event: FoundUnhealthy) -> Step:
    state = record.state
    if state.previous is None:
        text = f"release {state.version}, the first one, is not healthy yet: {event.reason}"
        return record, (Tell(text),)
    refused = MappingProxyType({**record.refused, state.version: event.reason})
    message = Tell(f"release {state.version} was taken back for {state.previous}: {event.reason}")
    return Record(Settled(state.previous), refused), (PointTo(state.previous), message, RestartAgent())


def _withdraw(record: Record[Settled], event: ReleaseWithdrawn) -> Step:
    state = record.state
    if event.version != state.version:
        return record, (Decline("not-here", f"{event.version} was withdrawn, and {state.version} runs"),)
    if state.previous is None:
        return record, (Decline("nothing-before", f"{state.version} was withdrawn, but no release before it is left"),)
    refused = MappingProxyType({**record.refused, state.version: f"withdrawn by the coordinator: {event.reason}"})
    message = Tell(f"release {state.version} was withdrawn, back to {state.previous}: {event.reason}")
    back = state.previous
    return Record(Settled(back), refused), (Adopt(back), PointTo(back), message, RestartAgent())


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
