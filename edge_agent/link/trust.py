"""The trust store: decides which orders the device obeys, by the coordinator's signature and without rollback.

The trusted key is the configured one, or else the first that a coordinator announced (trust on first use, as in SSH).
Another key is accepted only if the trusted key or the recovery key signed it (docs/adr/0036). A device that knows no
key yet has nothing to verify against and accepts any order. Refused orders are counted, and the last reason is kept for
``status``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Protocol

import msgspec
import structlog
from msgspec.structs import replace

from nightjar.wire import messages, topics
from nightjar.wire.errors import RemoteProtocolError, UnavailableError
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.messages import Announcement, Assignment, Succession
from nightjar.wire.signatures import signed_bytes, succession_bytes

TRUSTED, REFUSED, WHY = "trusted", "orders_refused", "order_refused_because"
"""Names of the facts in the database."""
MOST_TASKS = 1000
"""Limit of the tasks whose order numbers are kept: the coordinator chooses the names of tasks."""

log = structlog.get_logger()


SignatureCheck = Callable[[str, str, bytes], bool]
"""(public key, signature, signed bytes) -> whether the signature is valid."""


class Facts(Protocol):
    """Key-value store of small facts that a device remembers."""

    def fact(self, name: str) -> str | None:
        """A remembered value, or None."""

    def remember(self, name: str, value: str) -> None:
        """Remember a value under a name.

        Raises:
            UnavailableError: it could not be written.
        """


class Trusted(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that a device trusts, and the newest orders it has seen.

    Attributes:
        given: the configured key from which this state started; a different one resets the state.
        key: the key that signs orders now; empty if none is known.
        recovery: the recovery key, which may sign a new key; empty if none is known.
        recovered: number of the last key succession signed by the recovery key.
        signed_s: when the last order was signed, in seconds since 1970.
        numbers: the highest order number of each task under this key.
    """

    given: str = ""
    key: str = ""
    recovery: str = ""
    recovered: int = 0
    signed_s: float = 0.0
    numbers: dict[str, int] = {}


class KnownKey:
    """Implements :class:`nightjar.edge_agent.ports.Trust`. Thread-safe.

    ``given`` is the configured key and ``recovery`` the recovery key received at enrolment, both in hex, empty if there
    is none. ``now_s`` returns the time if the clock is trusted, else None; ``compare`` is told when a new order was
    signed.
    """

    def __init__(
        self,
        population: Population,
        device: DeviceId,
        facts: Facts,
        given: str = "",
        recovery: str = "",
        *,
        is_valid: SignatureCheck,
        now_s: Callable[[], float | None] = lambda: None,
        compare: Callable[[float], None] = lambda _signed_s: None,
    ) -> None:
        self._population = population
        self._topics = {
            "announce": topics.announce(population),
            "assignment": topics.down(population, device, "assignment"),
        }
        self._facts = facts
        self._is_valid = is_valid
        self._now_s, self._compare = now_s, compare
        self._state = trusted(facts, given, recovery)
        self._heard: bytes | None = None
        self._told = ""
        self._last: bytes | None = None  # already verified; the keyboard checks the same order again and again
        self._lock = threading.Lock()

    def announced(self, payload: bytes) -> None:
        """Note a key that a coordinator announced; the first one is trusted if none is configured.

        Verifying the succession to a different key takes a while, so this is left to the next check of an order.
        """
        self._heard = payload
        key = _announcement(payload).key
        if key and not self._state.key:
            self._keep(replace(self._state, key=key))
            log.info("coordinator_key_kept", key=key)

    def refused(self, why: str) -> None:
        """Count an order that was refused, and keep the reason."""
        with contextlib.suppress(UnavailableError):  # a full disk must not let the order through
            self._facts.remember(REFUSED, str(int(self._facts.fact(REFUSED) or 0) + 1))
            self._facts.remember(WHY, why)

    def check(self, kind: str, payload: bytes) -> None:
        """Check that an order is to be obeyed."""
        with self._lock:
            if not self._state.key or payload == self._last:
                return
            try:
                self._check(kind, payload)
            except RemoteProtocolError as error:
                self.refused(str(error))
                raise
            self._last = payload

    def _check(self, kind: str, payload: bytes) -> None:
        order = messages.decode(kind, payload)
        if not isinstance(order, Announcement | Assignment):
            msg = f"expected an order, got a message of kind {kind[:80]!r}"
            raise RemoteProtocolError(msg, code="kind")
        heard = None if self._heard is None else _announcement(self._heard)
        if heard is not None and heard.key != self._state.key:
            self._follow(heard.successions)
            if self._state.key != heard.key != self._told:
                self._told = heard.key  # announcements come again and again
                log.warning("coordinator_key_refused", announced=heard.key, known=self._state.key)
        self._check_signature(kind, payload)
        self._check_age(order)
        others = [(task, number) for task, number in self._state.numbers.items() if task != order.task]
        self._keep(
            replace(
                self._state,
                recovery=self._state.recovery or self._recovery_in(heard),
                signed_s=order.signed_s,
                numbers=dict(others[-MOST_TASKS:]) | {order.task: order.number},
            )
        )

    def _check_signature(self, kind: str, payload: bytes) -> None:
        sealed, known = messages.sealed(payload), self._state.key
        if not sealed.signature:
            why = f"nobody signed the {kind}; expected a signature by key {known[:12]}"
        elif not self._is_valid(known, sealed.signature, signed_bytes(self._topics[kind], sealed.signed)):
            why = (
                f"the signature of the {kind} is not by key {known[:12]}; if the coordinator has a new key that "
                "neither the old one nor the recovery key names, set coordinator_key to it"
            )
        else:
            return
        raise RemoteProtocolError(why, code="signature")

    def _check_age(self, order: Announcement | Assignment) -> None:
        """Refuse an order that is older than the newest seen of its task, or expired."""
        seen = self._state.numbers.get(order.task, -1)
        if order.number < seen:
            why = f"order {order.number} of task {order.task!r} is older than {seen}, which came before"
            raise RemoteProtocolError(why, code="rollback")
        if order.number > seen:
            self._compare(order.signed_s)  # nobody can have kept it for later
        now_s = self._now_s()
        if now_s is not None and order.not_after_s < now_s:
            late_s = now_s - order.not_after_s
            why = f"the order holds no more since {late_s:.0f} s; see that the clocks of both sides are right"
            raise RemoteProtocolError(why, code="expired")

    def _follow(self, successions: tuple[Succession, ...]) -> None:
        """Apply every succession to a newer key that our key or the recovery key signed."""
        for step in successions:
            known = self._state
            by_key = step.signer == known.key and step.number == 0
            by_recovery = step.signer == known.recovery and step.number > known.recovered
            if step.key == known.key or not (by_key or by_recovery):
                continue
            signed = succession_bytes(self._population, step.signer, step.key, step.number)
            if not self._is_valid(step.signer, step.signature, signed):
                continue
            self._keep(
                Trusted(
                    given=known.given,
                    key=step.key,
                    recovery=known.recovery,
                    recovered=step.number if by_recovery else known.recovered,
                )
            )
            log.warning("coordinator_key_changed", key=step.key, before=known.key, by_recovery=by_recovery)

    def _recovery_in(self, heard: Announcement | None) -> str:
        """The announced recovery key, if we know none and the coordinator signed the announcement; else empty."""
        if self._state.recovery or heard is None or not heard.recovery or self._heard is None:
            return ""
        try:
            self._check_signature("announce", self._heard)
        except RemoteProtocolError:
            return ""
        return heard.recovery

    def _keep(self, state: Trusted) -> None:
        self._facts.remember(TRUSTED, msgspec.json.encode(state).decode())
        self._state = state


def trusted(facts: Facts, given: str, recovery: str = "") -> Trusted:
    """The keys that a device trusts: the configured ones or their successors."""
    fresh = Trusted(given=given, key=given, recovery=recovery)
    kept = facts.fact(TRUSTED)
    if kept is None:
        return fresh
    stored = msgspec.json.decode(kept, type=Trusted)
    return fresh if stored.given != given else replace(stored, recovery=stored.recovery or recovery)


def _announcement(payload: bytes) -> Announcement:
    message = messages.decode("announce", payload)
    if not isinstance(message, Announcement):
        msg = "expected an announcement"
        raise RemoteProtocolError(msg)
    return message
