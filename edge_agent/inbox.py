"""The driver's inbox: what adapters put into its queue, and the jobs whose outcomes come back through it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from nightjar.wire.errors import NightjarError


@dataclass(frozen=True, slots=True)
class LinkUp:
    """We are connected, and the broker has granted our subscriptions."""


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The connection was lost, or could not be established."""

    reason: str


@dataclass(frozen=True, slots=True)
class AccessAnswered:
    """The coordinator answered over HTTPS why it refuses this device; empty if it does not."""

    refusal: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message arrived; it is not decoded yet."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Job:
    """A job for the worker thread. ``number`` is returned with the outcome."""

    number: int
    work: Callable[[Callable[[], bool]], object] = field(repr=False)


StartJob = Callable[[Callable[[Callable[[], bool]], object]], int]
"""Starts a job that is told when to stop, and returns its number."""


@dataclass(frozen=True, slots=True)
class WorkDone:
    """The outcome of a job: what it returned, or the exception that it raised."""

    number: int
    outcome: object


def failure(outcome: object) -> str:
    """Why a job failed; for an unexpected exception only its type, because its text may quote typed text."""
    return str(outcome)[:300] if isinstance(outcome, NightjarError) else f"unforeseen {type(outcome).__name__}"


@dataclass(frozen=True, slots=True)
class ReleaseCheckDone:
    """The outcome of a check for releases.

    Attributes:
        text: what was found or done, for the log.
        refused: what was refused, and why: a release, or metadata that does not verify; empty if nothing was.
    """

    text: str
    refused: str = ""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The process was asked to stop."""


@dataclass(frozen=True, slots=True)
class WipeAsked:
    """The user asked to delete all typed text and everything derived from it.

    Attributes:
        wipe: deletes everything; runs on the driver's thread, so that no write runs at the same time.
        done: resolved when everything is deleted, or with the error.
    """

    wipe: Callable[[], None]
    done: Future[None]


Item = LinkUp | LinkDown | AccessAnswered | Arrived | WorkDone | StopAsked | WipeAsked
"""An item that adapters put into the driver's queue, from any thread."""
